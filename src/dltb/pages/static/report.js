// The page about one run: one scrubber moves every panel and the playhead of every curve.
(() => {
  const data = dltb.data();
  const panels = Object.keys(data.panels), held = new Set(["input", "flow", "mask"]);
  const select = document.getElementById("stretch");
  let stretch = data.stretches[0], charts = [], rest = null;

  const scrub = dltb.scrubber({
    count: () => stretch.numbers.length,
    name: (i) => `pass ${stretch.numbers[i]} of ${stretch.passes}`,
    go: show,
  });

  function show(index) {
    for (const key of panels) showPanel(key, stretch.cells[key][index], index);
    for (const chart of charts) chart.moveTo(stretch.numbers[index]);
    for (const button of document.querySelectorAll("#sheet button"))
      button.setAttribute("aria-current", String(Number(button.dataset.index) === index));
    clearTimeout(rest);
    rest = setTimeout(() => showWhole(index), 250);
  }

  function showPanel(key, cell, index) {
    const panel = document.getElementById(`panel-${key}`), image = panel.querySelector("img"), why = panel.querySelector(".why");
    const number = stretch.numbers[index];
    image.hidden = cell < 0;
    why.hidden = cell >= 0;
    if (cell < 0) { why.textContent = stretch.reasons[-1 - cell]; image.removeAttribute("src"); }
    else { image.src = dltb.picture(data.pictures[cell]); image.alt = `${data.panels[key]}, pass ${number}`; }
    panel.dataset.number = number;
    const more = panel.querySelector(".more");
    if (key === "output") {
      const full = stretch.full[index];
      more.replaceChildren(full ? dltb.element("a", { href: full, textContent: "full size" })
        : stretch.kinds[index] === "video" ? "from the video" : "");
    } else if (held.has(key)) {
      const of = stretch.motionOf[index];
      more.textContent = cell < 0 ? "" : [of === number ? "" : `of pass ${of}`,
        key === "flow" ? `full colour at ${dltb.short(stretch.flowScale)} px` : ""].filter(Boolean).join(", ");
    }
    wheel(panel, key === "flow" && cell >= 0);
  }

  function wheel(panel, wanted) {
    const there = panel.querySelector(".wheel");
    if (wanted && !there) panel.querySelector(".picture").append(dltb.element("img", {
      className: "wheel", src: dltb.picture(data.wheel), alt: "Colour wheel: right is red, down yellow, left cyan, up blue" }));
    if (there) there.hidden = !wanted;
  }

  // When the scrubber rests, the saved frame itself replaces its thumbnail.
  function showWhole(index) {
    const full = stretch.full[index];
    if (!full) return;
    const image = new Image();
    image.onload = () => { if (scrub.index === index) document.querySelector("#panel-output img").src = full; };
    image.src = full;
  }

  function sheet() {
    const count = stretch.numbers.length, size = Math.min(data.sheet, count);
    const places = Array.from({ length: size }, (_, i) => size === 1 ? 0 : Math.round(i * (count - 1) / (size - 1)));
    const buttons = places.filter((place) => stretch.cells.output[place] >= 0).map((place) => {
      const image = dltb.element("img", { src: dltb.picture(data.pictures[stretch.cells.output[place]]), alt: "" });
      const button = dltb.element("button", { type: "button" }, image, dltb.element("span", { textContent: `pass ${stretch.numbers[place]}` }));
      button.dataset.index = place;
      button.addEventListener("click", () => scrub.show(place));
      return button;
    });
    document.getElementById("sheet").replaceChildren(...(buttons.length ? buttons : [dltb.element("p", { textContent: "There is no frame to show." })]));
  }

  function open(which) {
    stretch = data.stretches[which];
    charts.forEach((chart) => chart.remove());
    const place = document.getElementById("charts");
    place.replaceChildren();
    if (!stretch.charts.length) place.textContent = "Nothing was recorded or measured in this part of the run.";
    charts = stretch.charts.map((chart) => dltb.chart(place, chart, (x) => scrub.show(dltb.nearest(stretch.numbers, x))));
    sheet();
    if (!stretch.numbers.length) for (const why of document.querySelectorAll(".panel .why")) {
      why.textContent = "there is no pass to show";
      why.hidden = false;
      why.parentNode.querySelector("img").hidden = true;
    }
    scrub.show(0);
  }

  select?.addEventListener("change", () => open(Number(select.value)));
  open(0);
  window.dltbReady = true;
})();
