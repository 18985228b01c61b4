// Asks an address again and again while somebody looks; says when nobody answers, and recovers when somebody does.
const polling = (() => {
  const path = (name) => name.split("/").map(encodeURIComponent).join("/");
  function poll(address, interval, got) {
    let timer = null, busy = false;
    async function ask() {
      clearTimeout(timer);
      if (busy || document.hidden) return;
      busy = true;
      let value;
      try {
        const answer = await fetch(address(), { cache: "no-cache" });
        if (answer.status === 404) throw new Error("gone");
        if (!answer.ok) throw new Error(answer.status);
        value = await answer.json();
        document.getElementById("lost").hidden = true;
      } catch (error) {
        const lost = document.getElementById("lost");
        lost.textContent = error.message === "gone" ? "The run is not there (any more)." : "The server does not answer; trying again ...";
        lost.hidden = false;
      }
      busy = false;
      timer = setTimeout(ask, interval());
      if (value !== undefined) got(value);
    }
    document.addEventListener("visibilitychange", ask);
    ask();
  }
  return { poll, path };
})();
