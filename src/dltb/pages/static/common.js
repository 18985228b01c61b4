"use strict";
// Shared by all pages: charts with verdicts and a playhead, and a scrubber with its keys.
const dltb = (() => {
  const COLOURS = { light: ["#0072b2", "#c2500a", "#007a59", "#9c4a86", "#6b6b00", "#333333"],
                    dark: ["#5cb8ff", "#ff9a52", "#3ddcae", "#e9a0d3", "#e6dd52", "#dddddd"] };
  const WHOLE = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000];
  const scheme = matchMedia("(prefers-color-scheme: dark)");
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const element = (tag, properties = {}, ...children) => {
    const made = Object.assign(document.createElement(tag), properties);
    made.append(...children);
    return made;
  };
  const short = (value) => value == null ? "–" : String(Number(value.toPrecision(4)));
  const colour = (index) => COLOURS[scheme.matches ? "dark" : "light"][index % 6];

  // Series with x values of their own as uPlot wants them: one x for all, null where a series has none.
  function aligned(series) {
    const xs = [...new Set(series.flatMap((one) => one.x))].sort((a, b) => a - b);
    const place = new Map(xs.map((x, i) => [x, i]));
    const rows = series.map((one) => {
      const row = new Array(xs.length).fill(null);
      one.x.forEach((x, i) => { row[place.get(x)] = one.y[i]; });
      return row;
    });
    return [xs, ...rows];
  }

  function drawPlateaus(plot, series) {
    const { ctx, bbox } = plot;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    for (const one of series) {
      const found = one.verdict;
      if (!found || found.from == null) continue;
      const left = plot.valToPos(found.from, "x", true), right = bbox.left + bbox.width;
      const top = plot.valToPos(found.value + found.band, "y", true), bottom = plot.valToPos(found.value - found.band, "y", true);
      ctx.fillStyle = css("--plateau");
      ctx.fillRect(left, top, right - left, Math.max(2, bottom - top));
      line(ctx, css("--plateau-line"), [left, bbox.top, left, bbox.top + bbox.height], [6, 4]);
    }
    ctx.restore();
  }

  function line(ctx, stroke, [x0, y0, x1, y1], dash) {
    ctx.strokeStyle = stroke;
    ctx.lineWidth = 1.5 * devicePixelRatio;
    ctx.setLineDash(dash.map((d) => d * devicePixelRatio));
    ctx.beginPath();
    ctx.moveTo(x0, y0);
    ctx.lineTo(x1, y1);
    ctx.stroke();
    ctx.setLineDash([]);
  }

  function describe(chart) {
    const told = chart.series.map((one) => {
      const n = one.y.length;
      return `${one.name} from ${short(one.y[0])} to ${short(one.y[n - 1])}` + (one.verdict ? `, ${one.verdict.headline}` : "");
    });
    return `Line chart. ${chart.title}: ${told.join("; ")}`;
  }

  // A chart in `parent`; onSeek(x) is called when a reader points at a pass. Returns {moveTo, update, remove}.
  function chart(parent, data, onSeek) {
    const canvas = element("div");
    const verdict = element("p", { className: "verdict" });
    const box = element("div", { className: "chart" }, element("h3", { textContent: data.title }), verdict, canvas);
    parent.append(box);
    let plot = null, at = null, current = data;

    function build() {
      plot?.destroy();
      const axis = { stroke: css("--ink"), grid: { stroke: css("--grid"), width: 1 }, ticks: { stroke: css("--line") }, font: "12px system-ui, sans-serif" };
      plot = new uPlot({
        width: Math.max(200, box.clientWidth - 16), height: 190,
        scales: { x: { time: false } },
        axes: [{ ...axis, incrs: WHOLE }, { ...axis, size: 60, values: (_, ticks) => ticks.map((v) => short(v)) }],
        cursor: { drag: { x: false, y: false }, sync: { key: "passes" } },
        legend: { live: true },
        series: [{ label: "pass" }, ...current.series.map((one, i) => ({
          label: one.name, stroke: colour(i), width: 1.5, spanGaps: true, value: (_, v) => short(v),
          points: { show: one.x.length < 40, size: 4 },
        }))],
        hooks: { drawClear: [(u) => drawPlateaus(u, current.series)], draw: [drawPlayhead],
                 ready: [() => queueMicrotask(legend)], setData: [() => queueMicrotask(legend)] },
      }, aligned(current.series), canvas);
      seekable(plot.over);
      label();
    }

    function label() {
      canvas.setAttribute("role", "img");
      canvas.setAttribute("aria-label", describe(current));
      verdict.replaceChildren(...current.series.filter((one) => one.verdict).flatMap((one, i) => [
        i ? "; " : "", `${one.name}: `, element(one.verdict.from == null ? "span" : "b", { textContent: one.verdict.headline })]));
    }

    function drawPlayhead(u) {
      if (at == null) return;
      const x = u.valToPos(at, "x", true);
      line(u.ctx, css("--ink"), [x, u.bbox.top, x, u.bbox.top + u.bbox.height], []);
    }

    function legend() {
      const xs = plot?.data[0] ?? [];
      if (xs.length) plot.setLegend({ idx: at == null ? xs.length - 1 : nearest(xs, at) });
    }

    function seekable(over) {
      const seek = (event) => onSeek?.(plot.posToVal(event.clientX - over.getBoundingClientRect().left, "x"));
      over.addEventListener("pointerdown", (event) => { over.setPointerCapture(event.pointerId); seek(event); });
      over.addEventListener("pointermove", (event) => { if (event.buttons & 1) seek(event); });
      over.addEventListener("pointerleave", legend);
    }

    const resized = new ResizeObserver(() => plot?.setSize({ width: Math.max(200, box.clientWidth - 16), height: 190 }));
    build();
    resized.observe(box);
    scheme.addEventListener("change", build);
    return {
      key: data.key,
      get playhead() { return at; },
      moveTo(x) { at = x; plot.redraw(false); legend(); },
      update(next) {
        const same = next.series.length === current.series.length;
        current = next;
        if (same) { plot.setData(aligned(next.series)); label(); } else build();
      },
      remove() { resized.disconnect(); scheme.removeEventListener("change", build); plot.destroy(); box.remove(); },
    };
  }

  // The slider with its keys and its play button. `go(index)` shows a pass; it is called with whole numbers in range.
  function scrubber({ count, name, go }) {
    const slider = document.getElementById("scrub"), where = document.getElementById("where"), play = document.getElementById("play");
    let timer = null;
    function show(index) {
      const last = Math.max(0, count() - 1);
      const place = Math.min(Math.max(0, Math.round(index)), last);
      slider.max = last;
      slider.value = place;
      slider.disabled = play.disabled = count() === 0;
      where.textContent = count() ? name(place) : "no pass to show";
      slider.setAttribute("aria-valuetext", where.textContent);
      if (count()) go(place);
    }
    function stop() { clearInterval(timer); timer = null; play.setAttribute("aria-pressed", "false"); play.textContent = "Play"; }
    function start() {
      play.setAttribute("aria-pressed", "true");
      play.textContent = "Pause";
      if (Number(slider.value) >= count() - 1) show(0);
      timer = setInterval(() => { if (Number(slider.value) >= count() - 1) stop(); else show(Number(slider.value) + 1); }, 1000 / 12);
    }
    slider.addEventListener("input", () => show(Number(slider.value)));
    play.addEventListener("click", () => timer ? stop() : start());
    const steps = { ArrowLeft: -1, ArrowRight: 1, PageUp: 10, PageDown: -10 };
    document.addEventListener("keydown", (event) => {
      const taken = event.target.closest("input, select, textarea, video, summary, [tabindex='0']");
      if (event.altKey || event.ctrlKey || event.metaKey || taken) return;
      if (event.key in steps) show(Number(slider.value) + steps[event.key]);
      else if (event.key === "Home") show(0);
      else if (event.key === "End") show(count() - 1);
      else return;
      event.preventDefault();
    });
    return { show, get index() { return Number(slider.value); } };
  }

  function nearest(numbers, wanted) {
    let best = 0;
    numbers.forEach((n, i) => { if (Math.abs(n - wanted) < Math.abs(numbers[best] - wanted)) best = i; });
    return best;
  }

  const picture = (base64) => `data:image/webp;base64,${base64}`;
  const data = () => JSON.parse(document.getElementById("data").textContent);
  return { aligned, chart, data, element, nearest, picture, scrubber, short };
})();
