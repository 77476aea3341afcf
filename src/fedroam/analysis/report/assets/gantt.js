"use strict";
// Who is at what when: a lane a client, to zoom into. Far out, each column of a lane shows the shares of its time.
window.fedroam = window.fedroam || {};
fedroam.gantt = (figure, name, chart) => {
  const { make } = fedroam;
  const TOP = 12, BOTTOM = 42, RIGHT = 14, LANE = 17, MOST = 2500, COLUMN = 3;  // px, but MOST: bars
  const COLOURS = { training: "var(--c0)", sending: "var(--c1)", charging: "var(--c4)", dead: "var(--muted)", away: "var(--paper)" };
  const LEFT = 18 + 7 * Math.max(...chart.lanes.map((lane) => lane.label.length));
  const WAITING = "var(--grid)", UNITS = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  const height = TOP + BOTTOM + LANE * chart.lanes.length;
  const lanes = chart.lanes.map((lane) => {  // times come as steps, each from the one before
    let at = 0;
    const times = lane.steps.map((step) => (at += step) / 1000);
    return { label: lane.label, name: lane.name, state: lane.state, begin: times.filter((_, k) => k % 2 === 0), end: times.filter((_, k) => k % 2) };
  });
  let view = [0, chart.until], live = null, width = 0, drag = null, lane = -1, at = null;

  const still = figure.querySelector("svg"), caption = figure.querySelector("figcaption");
  const stage = make("div", { class: "chart gantt", tabindex: "0", role: "group", "aria-label": `${chart.title}. Plus and minus zoom, left and right move, up and down choose a client, 0 shows all.` });
  const names = make("div", { class: "names states" }), now = make("p", { class: "now", "aria-live": "polite" });
  const there = chart.states.filter((_, k) => lanes.some((own) => own.state.includes(k)));
  const keys = [...there.filter((s) => s !== "away").map((s) => [s, COLOURS[s]]), ["waiting", WAITING], ...(there.includes("away") ? [["away", "transparent"]] : [])];
  for (const [word, fill] of keys) {
    const key = make("span", { class: "box" });
    key.style.background = fill;
    names.append(make("span", {}, key, word));
  }
  const tools = fedroam.downloads(chart.title, name, picture, cells);
  const zooms = make("div", { class: "tools" });
  for (const [label, words, act] of [["−", "Zoom out", () => zoom(2)], ["+", "Zoom in", () => zoom(0.5)], ["◂", "Earlier", () => move(-0.5)], ["▸", "Later", () => move(0.5)], ["All", "Show all", () => look(0, chart.until)]]) {
    const button = make("button", { type: "button", "aria-label": words, title: words }, label);
    button.onclick = act;
    zooms.append(button);
  }
  if (still) still.remove();
  for (const node of [names, stage, make("div", { class: "under" }, now, zooms, tools)]) figure.insertBefore(node, caption);

  function look(from, until) {  // a stretch of at least a thousandth of a second, within what there is
    const span = Math.min(Math.max(until - from, 1e-3), chart.until), begin = Math.min(Math.max(from, 0), chart.until - span);
    view = [begin, begin + span];
    draw();
  }
  function zoom(factor, around = at === null ? (view[0] + view[1]) / 2 : at) {
    look(around - (around - view[0]) * factor, around + (view[1] - around) * factor);
  }
  function move(share) { const by = share * (view[1] - view[0]); look(view[0] + by, view[1] + by); }

  function first(list, value) {  // index of the first that is above the value
    let low = 0, high = list.length;
    while (low < high) { const middle = (low + high) >> 1; if (list[middle] > value) high = middle; else low = middle + 1; }
    return low;
  }
  function inView(own) {  // from which interval on, and before which
    return [first(own.end, view[0]), first(own.begin, view[1])];
  }
  function bars(Plot, factor) {
    return chart.states.map((state, s) => Plot.rect(lanes.flatMap((own, i) => {
      const [from, until] = inView(own), rows = [];
      for (let k = from; k < until; k++) {
        if (own.state[k] === s) rows.push({ i, a: Math.max(own.begin[k], view[0]) / factor, b: Math.min(own.end[k], view[1]) / factor });
      }
      return rows;
    }), { x1: "a", x2: "b", y1: (r) => r.i + 0.12, y2: (r) => r.i + 0.88, fill: COLOURS[state] }));
  }
  function shares(Plot, factor) {
    const bins = Math.max(Math.floor((width - LEFT - RIGHT) / COLUMN), 1), span = (view[1] - view[0]) / bins;
    const rows = chart.states.map(() => []);
    lanes.forEach((own, i) => {
      const of = chart.states.map(() => new Float64Array(bins)), [from, until] = inView(own);
      for (let k = from; k < until; k++) {
        const a = (Math.max(own.begin[k], view[0]) - view[0]) / span, b = (Math.min(own.end[k], view[1]) - view[0]) / span;
        for (let bin = Math.floor(a); bin < Math.min(b, bins); bin++) of[own.state[k]][bin] += Math.min(b, bin + 1) - Math.max(a, bin);
      }
      const base = new Float64Array(bins);
      of.forEach((share, s) => {
        for (let bin = 0; bin <= bins; bin++) {  // the last one twice, to give its step a width
          const k = Math.min(bin, bins - 1), low = base[k];
          rows[s].push({ i, x: (view[0] + bin * span) / factor, a: i + 0.88 - 0.76 * low, b: i + 0.88 - 0.76 * Math.min(low + share[k], 1) });
        }
        for (let bin = 0; bin < bins; bin++) base[bin] += share[bin];
      });
    });
    return rows.map((own, s) => Plot.areaY(own, { x: "x", y1: "a", y2: "b", z: "i", curve: "step-after", fill: COLOURS[chart.states[s]] }));
  }
  function draw() {
    if (!width) return;
    const Plot = window.Plot, [unit, factor] = UNITS.find(([, f]) => view[1] - view[0] >= 2 * f) || UNITS[3];
    const few = lanes.reduce((sum, own) => { const [a, b] = inView(own); return sum + b - a; }, 0) <= MOST;
    const ends = chart.rounds.filter((t) => t > view[0] && t < view[1]);
    const back = Plot.rect(lanes, { x1: view[0] / factor, x2: view[1] / factor, y1: (_, i) => i + 0.12, y2: (_, i) => i + 0.88, fill: WAITING });
    live = Plot.plot({
      width, height, marginLeft: LEFT, marginBottom: BOTTOM, marginTop: TOP, marginRight: RIGHT,
      style: { fontSize: "12px", fontFamily: "system-ui, sans-serif", color: "var(--ink)", background: "transparent", overflow: "visible" },
      x: { label: `Simulated time since the start (${unit})`, labelAnchor: "center", labelArrow: "none", domain: [view[0] / factor, view[1] / factor], ticks: Math.max(3, Math.round(width / 110)) },
      y: { label: null, domain: [lanes.length, 0], ticks: lanes.map((_, i) => i + 0.5), tickFormat: (v) => lanes[Math.floor(v)].label, tickSize: 0 },
      marks: [back, ...(few ? bars(Plot, factor) : shares(Plot, factor)), ...(ends.length <= width / 16 ? [Plot.ruleX(ends.map((t) => t / factor), { stroke: "var(--muted)", strokeOpacity: 0.6, strokeDasharray: "2 2" })] : [])],
    });
    live.setAttribute("role", "img");
    live.setAttribute("aria-label", `${chart.title}: ${lanes.length} clients from ${text(view[0])} to ${text(view[1])} s.`);
    live.dataset.mode = few ? "bars" : "shares";
    stage.replaceChildren(live);
    figure.dataset.state = "live";
    mark();
  }

  // What is under the pointer ---------------------------------------------------------------------------------------
  const text = (v) => String(+v.toFixed(v < 10 ? 2 : v < 1000 ? 1 : 0));
  function found(own, time) {  // the state at a time, from when until when
    const k = first(own.end, time);
    if (k < own.begin.length && own.begin[k] <= time) return [chart.states[own.state[k]], own.begin[k], own.end[k]];
    return ["waiting", k > 0 ? own.end[k - 1] : 0, k < own.begin.length ? own.begin[k] : chart.until];
  }
  function mark() {
    live.querySelectorAll(".mark").forEach((node) => node.remove());
    if (at === null || lane < 0) {
      const how = live.dataset.mode === "shares" ? "Columns are shares of their time: zoom in for single spans. " : "";
      now.textContent = `${how}Drag to zoom in, double click for all. Rounds end at dashed lines.`;
      return;
    }
    const [state, begin, end] = found(lanes[lane], at), round = first(chart.rounds, at) + 1;
    now.textContent = `${lanes[lane].name}: ${state}, ${text(begin)} to ${text(end)} s (${text(end - begin)} s); round ${Math.min(round, chart.rounds.length)}`;
    const SVG = live.namespaceURI, node = document.createElementNS(SVG, "rect"), factor = (UNITS.find(([, f]) => view[1] - view[0] >= 2 * f) || UNITS[3])[1];
    const x = live.scale("x"), a = x.apply(Math.max(begin, view[0]) / factor), b = x.apply(Math.min(end, view[1]) / factor);
    for (const [n, v] of Object.entries({ class: "mark", x: a, y: TOP + LANE * lane + 1, width: Math.max(b - a, 1), height: LANE - 2, fill: "none", stroke: "var(--ink)", "stroke-width": 1.5 })) node.setAttribute(n, v);
    live.append(node);
  }
  function time(event) {
    const box = stage.getBoundingClientRect(), share = (event.clientX - box.left - LEFT) / Math.max(width - LEFT - RIGHT, 1);
    return view[0] + Math.min(Math.max(share, 0), 1) * (view[1] - view[0]);
  }
  function point(event) {
    at = time(event);
    const row = Math.floor((event.clientY - stage.getBoundingClientRect().top - TOP) / LANE);
    lane = row >= 0 && row < lanes.length ? row : -1;
    if (live) mark();
    if (drag !== null && live) {
      const x = (t) => LEFT + ((t - view[0]) / (view[1] - view[0])) * (width - LEFT - RIGHT), node = document.createElementNS(live.namespaceURI, "rect");
      const [a, b] = [Math.min(drag, at), Math.max(drag, at)].map(x);
      for (const [n, v] of Object.entries({ class: "mark", x: a, y: TOP, width: b - a, height: LANE * lanes.length, fill: "var(--accent)", "fill-opacity": 0.2 })) node.setAttribute(n, v);
      live.append(node);
    }
  }
  stage.onpointerdown = (event) => { point(event); drag = at; };
  stage.onpointermove = point;
  stage.onpointerup = (event) => {
    const from = drag, until = time(event);
    drag = null;
    if (from !== null && Math.abs(until - from) > 0.01 * (view[1] - view[0])) look(Math.min(from, until), Math.max(from, until));
  };
  stage.onpointerleave = () => { at = null; drag = null; if (live) mark(); };
  stage.ondblclick = () => look(0, chart.until);
  stage.onkeydown = (event) => {
    const choose = (by) => { lane = Math.min(Math.max(lane + by, 0), lanes.length - 1); at = at === null ? view[0] : at; mark(); };
    const step = (by) => {  // to the span before or after, of a chosen client; else along
      if (lane < 0 || at === null) { move(0.5 * by); return; }
      const [, begin, end] = found(lanes[lane], at);
      at = Math.min(Math.max(by > 0 ? end : begin - 1e-6, 0), chart.until - 1e-6);
      if (at < view[0] || at > view[1]) look(at - (view[1] - view[0]) / 2, at + (view[1] - view[0]) / 2); else mark();
    };
    const act = { "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), 0: () => look(0, chart.until), ArrowLeft: () => step(-1), ArrowRight: () => step(1), ArrowUp: () => choose(-1), ArrowDown: () => choose(1), Escape: () => { at = null; lane = -1; mark(); } }[event.key];
    if (act && live && !event.ctrlKey && !event.metaKey && !event.altKey) { event.preventDefault(); act(); }
  };

  function picture() { return { live, height, keys: keys.map(([label, colour]) => ({ label, colour: colour === "transparent" ? "var(--paper)" : colour, wide: 9 })) }; }
  function cells() {  // what is in sight
    const rows = [["client", "state", "begin (s)", "end (s)"]];
    for (const own of lanes) { const [from, until] = inView(own); for (let k = from; k < until; k++) rows.push([own.name, chart.states[own.state[k]], own.begin[k], own.end[k]]); }
    return rows;
  }
  new ResizeObserver(() => requestAnimationFrame(() => {
    if (stage.clientWidth && stage.clientWidth !== width) { width = stage.clientWidth; draw(); }
  })).observe(stage);
  return () => draw();
};
