// The list of runs: cards that are changed in place, so that hundreds of them cost little.
(() => {
  const list = document.getElementById("runs"), filter = document.getElementById("filter"), status = document.getElementById("status");
  const compare = document.getElementById("compare");
  const cards = new Map();

  function make(run) {
    const image = dltb.element("img", { loading: "lazy", alt: "", hidden: true }), none = dltb.element("p", { className: "none why", textContent: "no frame yet" });
    const badge = dltb.element("span"), told = dltb.element("p"), bar = dltb.element("progress", { max: 1 });
    bar.setAttribute("aria-label", `Progress of ${run.name}`);
    const link = dltb.element("a", { href: `/run/${polling.path(run.name)}`, textContent: run.name });
    const report = dltb.element("a", { href: `/report/${polling.path(run.name)}`, textContent: "report" });
    report.setAttribute("aria-label", `Report of ${run.name}`);
    const box = dltb.element("input", { type: "checkbox", value: run.name });
    box.setAttribute("aria-label", `Choose ${run.name}`);
    box.addEventListener("change", choose);
    const node = dltb.element("li", { className: "card" }, image, none,
      dltb.element("div", {}, dltb.element("h3", {}, box, " ", link), dltb.element("p", {}, badge, " ", report), told, bar));
    return { node, image, none, badge, told, bar, shown: "" };
  }

  function fill(card, run) {
    const state = JSON.stringify(run);
    if (card.shown === state) return;
    card.shown = state;
    card.changed = run.changed;
    card.status = run.status;
    card.text = [run.name, run.tool, run.model, run.status].join(" ").toLowerCase();
    card.badge.className = `badge ${run.status}`;
    card.badge.textContent = run.status;
    const of = run.expected ? ` of ${run.expected}` : "";
    card.told.textContent = [run.model, run.pass ? `${run.phase} ${run.pass}${of}` : ""].filter(Boolean).join(", ");
    card.bar.hidden = run.status !== "running" || !run.expected;
    card.bar.value = run.expected ? run.pass / run.expected : 0;
    card.image.hidden = !run.picture;
    card.none.hidden = Boolean(run.picture);
    if (run.picture) card.image.src = `/thumbnail/${polling.path(run.picture[0])}?${run.picture[1]}`;
  }

  function arrange() {
    const wanted = filter.value.trim().toLowerCase();
    const order = [...cards.values()].sort((a, b) => b.changed - a.changed);
    let count = 0, place = list.firstElementChild;
    for (const card of order) {
      card.node.hidden = !card.text.includes(wanted) || (status.value && card.status !== status.value);
      if (!card.node.hidden) count += 1;
      if (card.node === place) place = place.nextElementSibling;
      else list.insertBefore(card.node, place);
    }
    const told = `${count} of ${cards.size} runs`, shown = document.getElementById("count");
    if (shown.textContent !== told) shown.textContent = told;
  }

  function chosen() { return [...list.querySelectorAll("input:checked")].map((box) => box.value); }

  function choose() {
    const names = chosen();
    compare.disabled = names.length < 2 || names.length > 8;
    compare.textContent = names.length > 8 ? "Compare at most eight" : `Compare the chosen${names.length ? ` (${names.length})` : ""}`;
  }

  function got(runs) {
    const names = new Set(runs.map((run) => run.name));
    for (const [name, card] of cards) if (!names.has(name)) { card.node.remove(); cards.delete(name); choose(); }
    for (const run of runs) {
      if (!cards.has(run.name)) cards.set(run.name, make(run));
      fill(cards.get(run.name), run);
    }
    arrange();
    window.dltbReady = true;
  }

  compare.addEventListener("click", () => { location.href = `/compare?${new URLSearchParams(chosen().map((name) => ["run", name]))}`; });
  filter.addEventListener("input", arrange);
  status.addEventListener("change", arrange);
  polling.poll(() => "/api/runs", () => 2000, got);
})();
