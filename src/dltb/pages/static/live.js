// The page that follows one run: asks for the passes after those it has; a log that was cut back comes whole again.
(() => {
  const data = dltb.data(), get = (id) => document.getElementById(id);
  const groups = data.charts.map((chart) => ({ ...chart, names: new RegExp(`^(?:${chart.names})$`) }));
  const NOT_DRAWN = new Set(["pass", "seed", "steps_run", "sigma_start"]);
  let steps = [], offset = 0, check = "", status = "", part = null, charts = [];

  function got(run) {
    if (run.reset) steps = [];
    steps.push(...run.steps);
    ({ offset, check, status } = run);
    get("badge").className = `badge ${run.status}`;
    get("badge").textContent = run.status;
    set("text", run.text === run.status ? "" : run.text);
    get("reason").hidden = !run.reason;
    set("reason", run.reason ?? "");
    picture(run);
    progress(run);
    if (run.reset || run.steps.length) draw();
    document.body.dataset.passes = steps.length;
    document.body.dataset.status = run.status;
    window.dltbReady = true;
  }

  function set(id, text) { if (get(id).textContent !== text) get(id).textContent = text; }

  function picture(run) {
    const latest = get("latest");
    latest.hidden = !run.picture;
    get("none").hidden = Boolean(run.picture);
    if (!run.picture) return;
    const address = `/files/${polling.path(run.picture[0])}?${run.picture[1]}`, name = run.picture[0].split("/").pop();
    if (latest.getAttribute("src") !== address) { latest.src = address; latest.alt = `Latest saved frame, ${name}`; }
    set("caption", name);
  }

  function progress(run) {
    const made = {};
    for (const step of steps) made[step.phase] = Math.max(made[step.phase] ?? 0, step.pass);
    const expected = run.expected ?? {}, names = [...new Set([...Object.keys(expected), ...Object.keys(made)])];
    set("made", names.map((name) => `${name} ${made[name] ?? 0}${expected[name] ? ` of ${expected[name]}` : ""}`).join(", "));
    const known = names.length > 0 && names.every((name) => expected[name]);
    const total = names.reduce((sum, name) => sum + (expected[name] ?? 0), 0), done = names.reduce((sum, name) => sum + (made[name] ?? 0), 0);
    if (known) get("progress").value = done / total; else get("progress").removeAttribute("value");
    const recent = steps.slice(-20).map((step) => step.seconds).filter(Number.isFinite).sort((a, b) => a - b);
    const each = recent[Math.floor(recent.length / 2)];
    const rate = each ? `${dltb.short(each)} s a pass` : "";
    set("left", run.status === "running" && each && known ? `${rate}, about ${time(each * (total - done))} left` : rate);
  }

  function time(seconds) {
    const s = Math.round(seconds), pad = (n) => String(n).padStart(2, "0");
    return s >= 3600 ? `${Math.floor(s / 3600)}:${pad(Math.floor(s / 60) % 60)}:${pad(s % 60)}` : `${Math.floor(s / 60)}:${pad(s % 60)}`;
  }

  function draw() {
    const phase = steps.at(-1)?.phase, own = steps.filter((step) => step.phase === phase);
    const names = [...new Set(own.flatMap((step) => Object.keys(step).filter((name) => Number.isFinite(step[name]) && !NOT_DRAWN.has(name))))];
    const series = (name) => {
      const having = own.filter((step) => Number.isFinite(step[name]));
      return { name, x: having.map((step) => step.pass), y: having.map((step) => step[name]), verdict: null };
    };
    const wanted = groups.map((group) => ({ key: group.key, title: group.title, series: names.filter((name) => group.names.test(name)).map(series) }))
      .filter((group) => group.series.length);
    const same = phase === part && wanted.map((g) => g.key).join() === charts.map((c) => c.key).join();
    if (same) { wanted.forEach((group, i) => charts[i].update(group)); return; }
    part = phase;
    get("part").textContent = phase ? (phase === "main" ? "main loop" : `tail: ${phase}`) : "";
    charts.forEach((chart) => chart.remove());
    get("charts").replaceChildren();
    charts = wanted.map((group) => dltb.chart(get("charts"), group, null));
  }

  polling.poll(() => `/api/run/${polling.path(data.name)}?offset=${offset}&check=${check}`,
    () => status === "running" ? 1000 : 3000, got);
})();
