// The page about several runs: one scrubber for all, a wipe between two of them, one series of all in one chart.
(() => {
  const { runs } = dltb.data();
  const numbers = [...new Set(runs.flatMap((run) => run.numbers))].sort((a, b) => a - b);
  const get = (id) => document.getElementById(id);
  const series = get("series"), position = get("wipe-position"), chosen = { a: get("choose-a"), b: get("choose-b") };
  let chart = null, rest = null, whole = false;

  const scrub = dltb.scrubber({ count: () => numbers.length, name: (i) => `pass ${numbers[i]}`, go: show });

  // The picture of a run at or before a pass; runs save different passes.
  function at(run, number) {
    let place = -1;
    run.numbers.forEach((n, i) => { if (n <= number && run.cells[i] >= 0) place = i; });
    if (place < 0) place = run.cells.findIndex((cell) => cell >= 0);
    if (place < 0) return null;
    return { number: run.numbers[place], small: dltb.picture(run.pictures[run.cells[place]]), full: run.full[place] };
  }

  function show(index) {
    const number = numbers[index];
    whole = false;
    runs.forEach((run, i) => {
      const panel = get(`run-${i}`), image = panel.querySelector("img"), why = panel.querySelector(".why"), found = at(run, number);
      image.hidden = !found;
      why.hidden = Boolean(found);
      if (!found) { why.textContent = "no frame"; return; }
      image.src = found.small;
      image.alt = `${run.label}, pass ${found.number}`;
      panel.dataset.number = found.number;
      panel.querySelector(".more").textContent = found.number === number ? "" : `pass ${found.number}`;
    });
    wipe();
    chart?.moveTo(number);
    clearTimeout(rest);
    rest = setTimeout(() => { whole = true; wipe(); }, 250);
  }

  function wipe() {
    if (!position) return;
    for (const letter of ["a", "b"]) {
      const run = runs[Number(chosen[letter].value)], found = at(run, numbers[scrub.index]), image = get(`wipe-${letter}`);
      if (!found) { image.removeAttribute("src"); continue; }
      image.alt = `${letter.toUpperCase()}: ${run.label}, pass ${found.number}`;
      image.src = whole && found.full ? found.full : found.small;
    }
    const share = Number(position.value);
    get("wipe-a").style.clipPath = `inset(0 ${100 - share}% 0 0)`;
    document.querySelector(".wipe .edge").style.left = `${share}%`;
  }

  function drag(event) {
    const box = get("wipe").getBoundingClientRect();
    position.value = 100 * (event.clientX - box.left) / box.width;
    wipe();
  }

  function draw() {
    chart?.remove();
    get("charts").replaceChildren();
    const having = runs.filter((run) => series.value in run.series);
    if (!having.length) { get("charts").textContent = "These runs have no curve."; return; }
    const drawn = having.map((run) => ({ name: run.label, ...run.series[series.value] }));
    chart = dltb.chart(get("charts"), { key: series.value, title: series.value, series: drawn }, (x) => scrub.show(dltb.nearest(numbers, x)));
    chart.moveTo(numbers[scrub.index]);
  }

  if (position) {
    position.addEventListener("input", wipe);
    get("wipe").addEventListener("pointerdown", (event) => { get("wipe").setPointerCapture(event.pointerId); drag(event); });
    get("wipe").addEventListener("pointermove", (event) => { if (event.buttons & 1) drag(event); });
    for (const letter of ["a", "b"]) chosen[letter].addEventListener("change", wipe);
    get("swap").addEventListener("click", () => { [chosen.a.value, chosen.b.value] = [chosen.b.value, chosen.a.value]; wipe(); });
  }
  for (const name of new Set(runs.flatMap((run) => Object.keys(run.series)))) series.append(new Option(name, name));
  series.addEventListener("change", draw);
  scrub.show(0);
  draw();
  window.dltbReady = true;
})();
