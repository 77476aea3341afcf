"use strict";
// The live pages: asks again every two seconds, draws what is new. Texts from folders are only ever set as text.
(() => {
  const page = document.body.dataset.page, PAUSE = 2000, get = (id) => document.getElementById(id);
  const make = (tag, ...children) => { const node = document.createElement(tag); node.append(...children); return node; };
  const script = (src) => new Promise((done, failed) => {
    const node = make("script");
    node.src = src;
    node.onload = done;
    node.onerror = () => failed(new Error(src));
    document.head.append(node);
  });
  const library = async () => { await script("/assets/d3.min.js"); await script("/assets/plot.umd.min.js"); };
  const charts = fedroam.charts(library);
  const ask = async (path) => {
    const answer = await fetch(path, { cache: "no-store" }), value = await answer.json();
    if (!answer.ok) throw new Error(value.error || answer.statusText);
    return value;
  };
  const ago = (written) => {
    const s = Math.max(0, Date.now() / 1000 - written);
    return s < 90 ? `${Math.round(s)} s ago` : s < 5400 ? `${Math.round(s / 60)} min ago` : s < 172800 ? `${Math.round(s / 3600)} h ago` : `${Math.round(s / 86400)} days ago`;
  };
  const percent = (share) => (share === null ? "–" : `${(100 * share).toFixed(1)} %`);

  function show(numbers) {
    for (const [name, chart] of Object.entries(numbers)) {
      if (get("figure-" + name)) continue;
      const figure = make("figure", make("figcaption", make("strong", chart.title)));
      figure.id = "figure-" + name;
      get("charts").append(figure);
    }
    charts.show(numbers);
  }
  function rows(runs) {
    get("rows").replaceChildren(...runs.map((run) => {
      const link = make("a", run.name), name = make("span", link);
      if (run.id) link.href = `/run/${run.id}`;
      if (run.place) name.append(make("small", run.place));
      const state = make("span", run.state + (run.reason ? `: ${run.reason}` : "")), bar = make("progress");
      state.className = `state-${run.state}`;
      bar.max = Math.max(run.rounds, 1);
      bar.value = run.round;
      bar.setAttribute("aria-label", "rounds");
      const cells = [name, run.seed === null ? "–" : run.seed, state, run.rounds ? make("span", `${run.round} of ${run.rounds}`, bar) : "–", percent(run.accuracy), run.written ? ago(run.written) : "–"];
      const heads = ["Run", "Seed", "State", "Round", "Accuracy", "Last written"];
      return make("tr", ...cells.map((cell, k) => { const td = make("td", cell); td.dataset.head = heads[k]; return td; }));
    }));
  }
  const id = location.pathname.split("/").pop();
  let stamp = "", moved = "", map = null;
  async function look() {
    const { runs } = await ask("/api/runs");
    if (page === "list") {
      const counts = new Map();
      for (const run of runs) counts.set(run.state, (counts.get(run.state) || 0) + 1);
      get("facts").textContent = runs.length ? [...counts].map(([state, n]) => `${n} ${state}`).join(" · ") : "no runs yet";
      rows(runs);
      const next = await ask(`/api/curves?since=${encodeURIComponent(stamp)}`);
      stamp = next.stamp;
      if (next.charts) show(next.charts);
      document.body.dataset.round = runs.reduce((sum, run) => sum + run.round, 0);
      return;
    }
    const run = runs.find((one) => one.id === id);
    if (!run) throw new Error("this run is not here any more");
    get("name").textContent = run.name;
    get("facts").textContent = `seed ${run.seed ?? "–"} · ${run.state}${run.reason ? `: ${run.reason}` : ""} · round ${run.round} of ${run.rounds} · accuracy ${percent(run.accuracy)} · last written ${ago(run.written)}`;
    const next = await ask(`/api/run/${id}?since=${encodeURIComponent(stamp)}`);
    stamp = next.stamp;
    if (next.charts) show(next.charts);
    const movement = await ask(`/api/map/${id}?since=${encodeURIComponent(moved)}`);
    moved = movement.stamp;
    if (movement.map && movement.map.runs.length) {
      if (map) map.update(movement.map);
      else map = fedroam.map(movement.map);
    }
    document.body.dataset.round = run.round;
    document.body.dataset.over = run.over;
  }
  async function again() {
    try { await look(); } catch (error) { get("facts").textContent = `not to be reached now: ${error.message}`; }
    setTimeout(again, PAUSE);
  }
  again();
})();
