"use strict";
// The curves that answer: hover values, hide a variant, download. The library is unpacked when the first one is near.
window.fedroam = window.fedroam || {};
fedroam.unpack = async (text) => {  // base64 of a zlib stream -> text
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const stream = new DecompressionStream("deflate"), writer = stream.writable.getWriter();
  writer.write(bytes);
  writer.close();
  return new Response(stream.readable).text();
};
fedroam.make = (tag, attributes = {}, ...children) => {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
};
// Buttons that save what is shown. picture(): { live (SVG), height, keys: [{ label, colour, dash }] }; cells(): rows.
fedroam.downloads = (title, name, picture, cells) => {
  const { make } = fedroam, tools = make("div", { class: "tools" });
  function save(blob, end) {
    const url = URL.createObjectURL(blob), link = make("a", { href: url, download: `${name}.${end}` });
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(url), 10000);
  }
  function drawing() {  // the SVG on its own: colours in place of the page's variables, paper, legend
    const { live, height, keys } = picture(), SVG = live.namespaceURI;
    const css = getComputedStyle(document.documentElement), copy = live.cloneNode(true);
    copy.querySelectorAll(".mark").forEach((node) => node.remove());
    const width = +live.getAttribute("width");
    const node = (tag, attributes, content) => {
      const made = document.createElementNS(SVG, tag);
      for (const [n, v] of Object.entries(attributes)) made.setAttribute(n, v);
      if (content !== undefined) made.textContent = content;
      return made;
    };
    const total = height + 22 + 18 * keys.length;
    copy.setAttribute("xmlns", SVG);
    copy.setAttribute("height", total);
    copy.setAttribute("viewBox", `0 0 ${width} ${total}`);
    copy.style.color = "var(--ink)";
    copy.prepend(node("rect", { width, height: total, fill: "var(--paper)" }));
    keys.forEach(({ label, colour, dash, wide }, row) => {
      const y = height + 16 + 18 * row;
      copy.append(node("line", { x1: 56, x2: 82, y1: y - 4, y2: y - 4, stroke: colour, "stroke-width": wide || 2.5, "stroke-dasharray": dash || "none" }));
      copy.append(node("text", { x: 90, y, fill: "var(--ink)", "font-size": 12, "font-family": "system-ui, sans-serif" }, label));
    });
    const source = new XMLSerializer().serializeToString(copy).replace(/var\(--([\w-]+)\)/g, (whole, name) => css.getPropertyValue("--" + name).trim() || "currentColor");
    return { source, width, total };
  }
  function saveSvg() { save(new Blob([drawing().source], { type: "image/svg+xml" }), "svg"); }
  function savePng() {
    const { source, width, total } = drawing(), image = new Image();
    image.onload = () => {
      const canvas = make("canvas", { width: 2 * width, height: 2 * total });
      canvas.getContext("2d").drawImage(image, 0, 0, 2 * width, 2 * total);
      canvas.toBlob((blob) => save(blob, "png"), "image/png");
    };
    image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(source);
  }
  function saveCsv() {
    const cell = (v) => {
      let c = v === null ? "" : String(v);
      if (typeof v === "string" && /^[=+\-@\t\r]/.test(c)) c = "'" + c;  // a spreadsheet would compute it
      return /[",\n\r]/.test(c) ? `"${c.replaceAll('"', '""')}"` : c;
    };
    save(new Blob([cells().map((row) => row.map(cell).join(",")).join("\n") + "\n"], { type: "text/csv" }), "csv");
  }
  for (const [label, act] of [["SVG", saveSvg], ["PNG", savePng], ["CSV", saveCsv]]) {
    const button = make("button", { type: "button", "aria-label": `Download ${title} as ${label}` }, label);
    button.onclick = act;
    tools.append(button);
  }
  return tools;
};
fedroam.charts = (loadLibrary) => {
  const DASHES = ["", "6 3", "2 2.5", "7 2.5 2 2.5"], HEIGHT = 300;
  const { make } = fedroam;
  const colour = (k) => `var(--c${k % 6})`, dash = (k) => DASHES[Math.floor(k / 6) % 4];
  const known = (v) => v !== null && Number.isFinite(v);
  const text = (v) => {
    if (!known(v)) return "–";
    const size = Math.abs(v);
    return (size !== 0 && (size < 0.01 || size >= 1e6) ? v.toExponential(2) : String(+v.toFixed(size < 1 ? 3 : size < 1000 ? 2 : 0))).replace("-", "−");
  };
  const value = (s, k) => text(s.mean[k]) + (known(s.error[k]) ? ` ± ${text(s.error[k])}` : "");
  let library = null;
  const plotting = () => (library = library || loadLibrary());

  // One figure -----------------------------------------------------------------------------------------------------
  function hydrate(figure, name, first) {
    let chart = first, hidden = new Set(), at = null, live = null;
    const still = figure.querySelector("svg"), caption = figure.querySelector("figcaption");
    const stage = make("div", { class: "chart", tabindex: "0", role: "group", "aria-label": `${chart.title}. The arrow keys read values.` });
    const names = make("div", { class: "names" }), now = make("p", { class: "now", "aria-live": "polite" });
    const tools = fedroam.downloads(chart.title, name, picture, cells);
    if (still) still.remove();
    figure.insertBefore(names, caption);
    figure.insertBefore(stage, caption);
    figure.insertBefore(make("div", { class: "under" }, now, tools), caption);
    const scatter = () => Boolean(chart.points);

    function entries() {  // a button for each variant: pressed is shown
      names.replaceChildren(...chart.series.map((s, k) => {
        const key = make("span", { class: "key" });
        key.style.borderTop = `3px ${["solid", "dashed", "dotted", "double"][Math.floor(k / 6) % 4]} ${colour(k)}`;
        const button = make("button", { type: "button", "aria-pressed": String(!hidden.has(s.label)) }, key, make("span", { class: "name" }, s.label), make("span", { class: "value" }));
        button.title = "Click: hide or show. Double click: show this one alone.";
        button.onclick = () => { hidden.has(s.label) ? hidden.delete(s.label) : hidden.add(s.label); entries(); draw(); };
        button.ondblclick = () => { hidden = new Set(chart.series.map((o) => o.label).filter((l) => l !== s.label)); entries(); draw(); };
        return button;
      }));
      names.hidden = chart.series.length < 2 && !scatter() && chart.series.every((s) => !s.label);
    }
    const shown = () => chart.series.map((s, k) => [s, k]).filter(([s]) => !hidden.has(s.label));

    function draw() {
      const Plot = window.Plot, width = Math.max(stage.clientWidth, 240);
      const band = [], marks = [Plot.frame({ anchor: "bottom", stroke: "var(--line)" })], low = [];
      for (const [s] of shown()) for (const v of s.mean) if (known(v) && v > 0) low.push(v);
      const floor = chart.log && low.length ? low.reduce((a, b) => Math.min(a, b)) / 2 : -Infinity;
      for (const [s, k] of shown()) {
        const rows = s.x.map((x, i) => ({ x, y: s.mean[i], e: s.error[i] })).filter((r) => known(r.x));
        for (const r of rows) if (!known(r.y) || (chart.log && r.y <= 0)) r.y = NaN;
        if (scatter()) {
          marks.push(Plot.ruleX(rows.filter((r) => known(r.e)), { x: "x", y1: (r) => r.y - r.e, y2: (r) => r.y + r.e, stroke: colour(k) }));
          marks.push(Plot.dot(rows, { x: "x", y: "y", r: chart.front.includes(k) ? 5.5 : 4, fill: chart.front.includes(k) ? colour(k) : "var(--paper)", stroke: colour(k), strokeWidth: 1.8 }));
          continue;
        }
        if (rows.some((r) => known(r.e))) marks.push(Plot.areaY(rows, { x: "x", y1: (r) => (known(r.e) ? Math.max(r.y - r.e, floor) : NaN), y2: (r) => (known(r.e) ? r.y + r.e : NaN), fill: colour(k), fillOpacity: 0.18 }));
        band.push(Plot.line(rows, { x: "x", y: "y", stroke: colour(k), strokeWidth: 1.8, strokeDasharray: dash(k) || undefined }));
        if (rows.length <= 30) band.push(Plot.dot(rows.filter((r) => known(r.y)), { x: "x", y: "y", r: 2.4, fill: colour(k) }));
      }
      if (scatter() && chart.front.length > 1) {
        const front = chart.front.filter((k) => !hidden.has(chart.series[k].label)).map((k) => ({ x: chart.series[k].x[0], y: chart.series[k].mean[0] })).sort((a, b) => a.x - b.x);
        marks.unshift(Plot.line(front, { x: "x", y: "y", stroke: "var(--muted)", strokeDasharray: "3 3", curve: "step-after" }));
      }
      const all = shown().flatMap(([s]) => s.mean.filter(known)), empty = !all.length;
      const level = !empty && all.every((v) => v === all[0]) && shown().every(([s]) => !s.error.some((e) => e > 0)) ? all[0] : null;
      const around = level === null ? undefined : level === 0 ? [0, 1] : [level - Math.abs(level) / 2, level + Math.abs(level) / 2];
      live = Plot.plot({
        width, height: HEIGHT, marginLeft: 56, marginBottom: 42, marginTop: 26, marginRight: 14,
        style: { fontSize: "12px", fontFamily: "system-ui, sans-serif", color: "var(--ink)", background: "transparent", overflow: "visible" },
        x: { label: chart.x, labelAnchor: "center", labelArrow: "none", ticks: Math.max(3, Math.round(width / 90)), nice: false, domain: empty ? [0, 1] : undefined },
        y: { label: chart.y, labelArrow: "none", labelAnchor: "top", grid: true, type: chart.log && low.length ? "log" : "linear", ticks: 6, tickFormat: chart.log ? (v) => text(v) : undefined, domain: chart.log ? undefined : empty ? [0, 1] : around, zero: false, nice: !chart.log, tickSize: 0 },
        marks: [...marks, ...band],
      });
      live.setAttribute("role", "img");
      live.setAttribute("aria-label", `${chart.title}: ${chart.y} over ${chart.x}. ${chart.series.length} lines.`);
      stage.replaceChildren(live);
      figure.dataset.state = "live";
      mark();
    }

    // Values under the pointer: the nearest x that any shown line has; in a scatter, the nearest point.
    function places() {
      return [...new Set(shown().flatMap(([s]) => s.x.filter(known)))].sort((a, b) => a - b);
    }
    function nearest(s, x) {
      let best = -1;
      s.x.forEach((v, k) => { if (known(v) && (best < 0 || Math.abs(v - x) < Math.abs(s.x[best] - x))) best = k; });
      return best;
    }
    function mark() {
      const SVG = live.namespaceURI;
      live.querySelectorAll(".mark").forEach((node) => node.remove());
      const values = [...names.querySelectorAll(".value")];
      values.forEach((node) => { node.textContent = ""; });
      if (at === null || !shown().length) {
        const n = Math.max(...chart.series.map((s) => s.n), 0);
        const means = scatter() ? "" : n > 1 ? `Mean over ${n} seeds, band: ± standard error. ` : "";
        now.textContent = `${means}Point for values${chart.series.length > 1 ? ", click a name to hide it" : ""}.`;
        return;
      }
      const sx = live.scale("x"), sy = live.scale("y");
      const dot = (x, y, k) => {
        const c = document.createElementNS(SVG, "circle");
        for (const [n, v] of Object.entries({ class: "mark", cx: sx.apply(x), cy: sy.apply(y), r: 4.5, fill: colour(k), stroke: "var(--paper)", "stroke-width": 1.5 })) c.setAttribute(n, v);
        live.append(c);
      };
      if (scatter()) {
        const s = chart.series[at];
        dot(s.x[0], s.mean[0], at);
        now.textContent = `${s.label}: ${value(s, 0)} at ${text(s.x[0])}${chart.front.includes(at) ? ", on the front" : ""}`;
        return;
      }
      const rule = document.createElementNS(SVG, "line"), px = sx.apply(at);
      for (const [n, v] of Object.entries({ class: "mark", x1: px, x2: px, y1: 26, y2: HEIGHT - 42, stroke: "var(--muted)", "stroke-dasharray": "2 3" })) rule.setAttribute(n, v);
      live.append(rule);
      const said = [];
      for (const [s, k] of shown()) {
        const i = nearest(s, at);
        if (i < 0 || !known(s.mean[i])) continue;
        if (!(chart.log && s.mean[i] <= 0)) dot(s.x[i], s.mean[i], k);
        values[k].textContent = value(s, i);
        said.push(`${s.label} ${value(s, i)}`.trim());
      }
      now.textContent = `${chart.x}: ${text(at)}` + (chart.series.length === 1 ? ` – ${said.join("")}` : "");
    }
    function point(event) {
      if (!live) return;
      const box = live.getBoundingClientRect(), mx = event.clientX - box.left, my = event.clientY - box.top;
      const sx = live.scale("x"), sy = live.scale("y");
      if (scatter()) {
        let gap = Infinity;
        for (const [s, k] of shown()) {
          if (!known(s.x[0]) || !known(s.mean[0])) continue;
          const d = (sx.apply(s.x[0]) - mx) ** 2 + (sy.apply(s.mean[0]) - my) ** 2;
          if (d < gap) { gap = d; at = k; }
        }
      } else {
        const all = places();
        at = all.length ? all.reduce((a, b) => (Math.abs(sx.apply(b) - mx) < Math.abs(sx.apply(a) - mx) ? b : a)) : null;
      }
      mark();
    }
    function step(by) {
      const all = scatter() ? shown().filter(([s]) => known(s.x[0])).sort(([a], [b]) => a.x[0] - b.x[0]).map(([, k]) => k) : places();
      if (!all.length) return;
      const k = all.indexOf(at);
      at = all[Math.min(Math.max(k < 0 ? (by > 0 ? 0 : all.length - 1) : k + by, 0), all.length - 1)];
      mark();
    }
    stage.onpointermove = point;
    stage.onpointerdown = point;
    stage.onpointerleave = () => { at = null; if (live) mark(); };
    stage.onkeydown = (event) => {
      const act = { ArrowRight: () => step(1), ArrowLeft: () => step(-1), Home: () => { at = null; step(1); }, End: () => { at = null; step(-1); }, Escape: () => { at = null; mark(); } }[event.key];
      if (act && live && !event.ctrlKey && !event.metaKey && !event.altKey) { event.preventDefault(); act(); }
    };

    // Downloads: what is shown now ---------------------------------------------------------------------------------
    function picture() {
      const list = shown().filter(([s]) => s.label);
      return { live, height: HEIGHT, keys: list.map(([s, k]) => ({ label: s.label, colour: colour(k), dash: dash(k) })) };
    }
    function cells() {
      const rows = [["variant", chart.x, chart.y, "standard error", "seeds"]];
      for (const [s] of shown()) s.x.forEach((x, k) => rows.push([s.label, x, s.mean[k], s.error[k], s.n]));
      return rows;
    }

    entries();
    let width = 0;
    new ResizeObserver(() => requestAnimationFrame(() => {  // drawing at once would change sizes while they are told
      if (stage.clientWidth && stage.clientWidth !== width) { width = stage.clientWidth; draw(); }
    })).observe(stage);
    return (next) => { chart = next; entries(); if (width) draw(); };
  }

  // All figures of the page that have numbers ------------------------------------------------------------------------
  const drawn = new Map();
  let numbers = {};
  const near = new IntersectionObserver((seen) => {
    for (const { target, isIntersecting } of seen) if (isIntersecting) { near.unobserve(target); open(target); }
  }, { rootMargin: "400px" });
  async function open(figure) {
    const name = figure.id.replace(/^figure-/, "");
    figure.dataset.state = "loading";
    try {
      await plotting();
      drawn.set(name, (numbers[name].lanes ? fedroam.gantt : hydrate)(figure, name, numbers[name]));
    } catch (error) {
      figure.dataset.state = "static";  // the picture stays
      console.error(error);
    }
  }
  return {
    show(next) {
      numbers = next;
      for (const name of Object.keys(numbers)) {
        const figure = document.getElementById("figure-" + name);
        if (drawn.has(name)) drawn.get(name)(numbers[name]);
        else if (figure && !figure.dataset.state) { figure.dataset.state = "waiting"; near.observe(figure); }
      }
    },
  };
};
// In a report all is in the page: the library as packed text, run by the policy's leave for its very bytes.
(async () => {
  const data = document.getElementById("charts-data");
  if (!data || typeof DecompressionStream === "undefined") return;
  const load = async () => {
    for (const part of document.querySelectorAll("script[data-library]")) {
      const script = document.createElement("script");
      script.textContent = await fedroam.unpack(part.textContent);
      document.head.append(script);
    }
  };
  fedroam.charts(load).show(JSON.parse(await fedroam.unpack(data.textContent)));
})();
