"use strict";
// The map: draws one run on a canvas, plays it round by round. What it is given may grow: `update` takes more of it.
window.fedroam = window.fedroam || {};
fedroam.map = (given) => {
  const root = document.getElementById("map");
  if (!root) return null;
  const $ = (name) => document.getElementById("map-" + name);
  const canvas = $("canvas"), pen = canvas.getContext("2d");
  let runs = given.runs;
  const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  const ABSENT = 65535, SPAN = 65534, TRAIL = 12;
  // Cividis (Nunez, Anderton and Renslow 2018): even to the eye with any kind of colour vision.
  const RAMP = [[0, 34, 78], [53, 69, 108], [102, 105, 112], [148, 142, 119], [200, 184, 102], [254, 232, 56]];
  let run = null, data = null, frame = 0, shift = 1, playing = false, timer = 0, due = 0, began = 0, chosen = -1, pinned = false;
  let theme = {}, place = null, wanted = null;

  const percent = (share) => (share === null ? "–" : (100 * share).toFixed(1) + " %");
  const metres = (v) => (run.bounds[2] - run.bounds[0] > 100 ? v.toFixed(0) : +v.toFixed(2));

  async function unpack(text) {
    const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    const view = new DataView(await new Response(stream).arrayBuffer());
    const all = new Uint16Array(view.byteLength / 2);
    for (let k = 0; k < all.length; k++) all[k] = view.getUint16(2 * k, true);
    return all;
  }

  async function choose(next) {
    root.dataset.state = "loading";
    wanted = next;
    const all = await unpack(next.packed);
    if (wanted !== next) return;  // another run was chosen meanwhile
    const n = next.clients.length, frames = next.rounds.length;
    let at = 0;
    const take = (count) => all.subarray(at, (at += count));
    const loaded = { places: take(frames * n * 2), degrees: take(frames * n) };
    const first = [0];
    for (const count of next.lines) first.push(first[first.length - 1] + count);
    loaded.first = first;
    loaded.pairs = take(2 * first[frames]);
    loaded.accuracy = take(next.judged.length * n);
    loaded.serving = next.linked ? take(frames * n) : null;
    loaded.load = next.linked ? take(frames * next.access_points.length) : null;
    const same = run && run.variant === next.variant && run.seed === next.seed;
    const latest = same && frame === run.rounds.length - 1;  // who watches the end goes on watching it
    const now = latest ? Infinity : run ? run.rounds[frame] : 0;
    run = next;
    data = loaded;
    frame = nearest(now);
    shift = 1;
    if (chosen >= n) chosen = -1;
    $("round").max = frames - 1;
    const some = next.access_points.length > 0;
    $("points").closest("label").hidden = !some;
    $("links").closest("label").hidden = !next.linked;
    for (const name of ["contacts", "ranges"]) $(name).closest("label").hidden = !next.meets;
    range();
    legend();
    root.dataset.state = "ready";
    show();
  }

  function nearest(round) {
    let k = 0;
    while (k + 1 < run.rounds.length && run.rounds[k + 1] <= round) k++;
    return k;
  }

  function range() {  // the colours' range: that of the run's accuracies
    let low = SPAN, high = 0;
    for (const v of data.accuracy) if (v !== ABSENT) { low = Math.min(low, v); high = Math.max(high, v); }
    data.low = low < high ? low : 0;
    data.high = low < high ? high : SPAN;
  }

  function judged() {  // the newest evaluation at this frame, or -1
    let k = -1;
    while (k + 1 < run.judged.length && run.judged[k + 1] <= run.rounds[frame]) k++;
    return k;
  }

  const score = (i) => {
    const k = judged(), v = k < 0 ? ABSENT : data.accuracy[k * run.clients.length + i];
    return v === ABSENT ? null : v / SPAN;
  };
  const ramp = (t) => {
    const x = Math.min(Math.max(t, 0), 1) * (RAMP.length - 1), k = Math.min(Math.floor(x), RAMP.length - 2);
    return `rgb(${RAMP[k].map((v, c) => Math.round(v + (RAMP[k + 1][c] - v) * (x - k)))})`;
  };
  const colour = (i) => {
    if ($("colour").value === "group") return theme.colours[run.group[i] % 6];
    const v = score(i);
    return v === null ? theme.muted : ramp((v * SPAN - data.low) / (data.high - data.low));
  };

  // Places ------------------------------------------------------------------------------------------------------
  function raw(f, i) {  // metres, or null for a client that is away
    const k = 2 * (f * run.clients.length + i), [x0, y0, x1, y1] = run.bounds;
    if (data.places[k] === ABSENT) return null;
    return [x0 + (data.places[k] / SPAN) * (x1 - x0), y0 + (data.places[k + 1] / SPAN) * (y1 - y0)];
  }
  function where(i) {  // on the way from the last frame's place to this one's
    const to = raw(frame, i), from = shift < 1 && frame > 0 ? raw(frame - 1, i) : null;
    if (!to || !from) return to;
    return [from[0] + (to[0] - from[0]) * shift, from[1] + (to[1] - from[1]) * shift];
  }
  function fit() {
    const ratio = devicePixelRatio || 1, w = canvas.clientWidth, h = canvas.clientHeight;
    if (canvas.width !== Math.round(w * ratio) || canvas.height !== Math.round(h * ratio)) {
      canvas.width = Math.round(w * ratio);
      canvas.height = Math.round(h * ratio);
    }
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    const [x0, y0, x1, y1] = run.bounds, left = 46, top = 12, right = 14, bottom = 38;
    const dx = Math.max(x1 - x0, 1e-9), dy = Math.max(y1 - y0, 1e-9);
    let sx = (w - left - right - 16) / dx, sy = (h - top - bottom - 16) / dy;
    if (Math.max(sx / sy, sy / sx) < 6) sx = sy = Math.min(sx, sy);  // long roads get axes of their own
    const ox = left + (w - left - right - sx * dx) / 2, oy = top + (h - top - bottom - sy * dy) / 2;
    place = { w, h, sx, sy, x: (x) => ox + (x - x0) * sx, y: (y) => oy + (y1 - y) * sy };
  }

  // Drawing -----------------------------------------------------------------------------------------------------
  function look() {
    const css = getComputedStyle(document.documentElement), get = (name) => css.getPropertyValue("--" + name).trim();
    theme = { ink: get("ink"), muted: get("muted"), grid: get("grid"), paper: get("paper") };
    theme.colours = [0, 1, 2, 3, 4, 5].map((k) => get("c" + k));
  }
  function ticks(low, high, most) {
    const rough = Math.max((high - low) / most, 1e-9), power = 10 ** Math.floor(Math.log10(rough));
    const step = power * [1, 2, 5, 10].find((m) => m * power >= rough), found = [];
    for (let v = Math.ceil(low / step - 1e-9) * step; v <= high + step * 1e-9; v += step) found.push(+v.toPrecision(9));
    return found;
  }
  function axes() {
    const [x0, y0, x1, y1] = run.bounds, { x, y } = place, pad = 8;
    const large = Math.max(x1 - x0, y1 - y0) > 5000, unit = large ? "km" : "m", f = large ? 1e-3 : 1;
    pen.strokeStyle = theme.grid;
    pen.fillStyle = theme.muted;
    pen.lineWidth = 1;
    pen.font = "12px system-ui, sans-serif";
    pen.textAlign = "center";
    pen.textBaseline = "top";
    for (const v of ticks(x0, x1, Math.max(2, (place.sx * (x1 - x0)) / 70))) {
      segment(x(v), y(y0) + pad, x(v), y(y1) - pad);
      pen.fillText(+(v * f).toPrecision(6), x(v), y(y0) + pad + 4);
    }
    pen.fillText(`x (${unit})`, (x(x0) + x(x1)) / 2, y(y0) + pad + 19);
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    for (const v of ticks(y0, y1, Math.max(2, (place.sy * (y1 - y0)) / 60))) {
      segment(x(x0) - pad, y(v), x(x1) + pad, y(v));
      pen.fillText(+(v * f).toPrecision(6), x(x0) - pad - 4, y(v));
    }
    pen.save();
    pen.translate(x(x0) - pad - 36, (y(y0) + y(y1)) / 2);
    pen.rotate(-Math.PI / 2);
    pen.textAlign = "center";
    pen.fillText(`y (${unit})`, 0, 0);
    pen.restore();
  }
  function segment(ax, ay, bx, by) {
    pen.beginPath();
    pen.moveTo(ax, ay);
    pen.lineTo(bx, by);
    pen.stroke();
  }
  function ring(p) {
    pen.beginPath();
    pen.ellipse(place.x(p[0]), place.y(p[1]), run.reach * place.sx, run.reach * place.sy, 0, 0, 2 * Math.PI);
  }
  function marker(pen, x, y, r, kind) {  // a group has its own shape, not only its own colour
    pen.beginPath();
    if (kind === 1) pen.rect(x - 0.88 * r, y - 0.88 * r, 1.76 * r, 1.76 * r);
    else if (kind === 2) { pen.moveTo(x, y - 1.2 * r); pen.lineTo(x + 1.1 * r, y + 0.8 * r); pen.lineTo(x - 1.1 * r, y + 0.8 * r); pen.closePath(); }
    else if (kind === 3) { pen.moveTo(x, y - 1.25 * r); pen.lineTo(x + 1.25 * r, y); pen.lineTo(x, y + 1.25 * r); pen.lineTo(x - 1.25 * r, y); pen.closePath(); }
    else if (kind === 4) { pen.moveTo(x, y + 1.2 * r); pen.lineTo(x + 1.1 * r, y - 0.8 * r); pen.lineTo(x - 1.1 * r, y - 0.8 * r); pen.closePath(); }
    else if (kind === 5) { pen.rect(x - 1.15 * r, y - 0.6 * r, 2.3 * r, 1.2 * r); }
    else pen.arc(x, y, r, 0, 2 * Math.PI);
  }
  function trails(n) {
    const [x0, y0, x1, y1] = run.bounds, far = 0.6 * Math.hypot(x1 - x0, y1 - y0);  // else long jumps fill the map
    for (let i = 0; i < n; i++) {
      pen.lineWidth = i === chosen ? 2.2 : 1.5;
      let to = where(i), left = i === chosen ? Infinity : far;
      pen.strokeStyle = theme.colours[run.group[i] % 6];
      for (let back = 1; back <= TRAIL && frame - back >= 0 && to; back++) {
        const from = raw(frame - back, i);
        if (!from || left < 0) break;
        left -= Math.hypot(from[0] - to[0], from[1] - to[1]);
        if (from[0] !== to[0] || from[1] !== to[1]) {
          pen.globalAlpha = 0.5 * (1 - back / (TRAIL + 1));
          segment(place.x(from[0]), place.y(from[1]), place.x(to[0]), place.y(to[1]));
        }
        to = from;
      }
    }
    pen.globalAlpha = 1;
  }
  function draw() {
    if (!data) return;
    look();
    fit();
    pen.clearRect(0, 0, place.w, place.h);
    axes();
    const n = run.clients.length, r = n > 400 ? 3 : n > 120 ? 4.5 : 7;
    if ($("trails").checked) trails(n);
    if (run.reach !== null && $("ranges").checked) {
      pen.strokeStyle = theme.muted;
      pen.globalAlpha = 0.35;
      pen.lineWidth = 1;
      for (let i = 0; i < n; i++) { const p = where(i); if (p) { ring(p); pen.stroke(); } }
      pen.globalAlpha = 1;
    }
    if (run.reach !== null && chosen >= 0 && where(chosen)) {
      ring(where(chosen));
      pen.fillStyle = theme.colours[run.group[chosen] % 6];
      pen.globalAlpha = 0.14;
      pen.fill();
      pen.globalAlpha = 0.9;
      pen.lineWidth = 1.5;
      pen.strokeStyle = pen.fillStyle;
      pen.stroke();
      pen.globalAlpha = 1;
    }
    if ($("contacts").checked && shift >= 1) {  // contacts hold where the models are exchanged: at the round's place
      pen.strokeStyle = theme.ink;
      const count = data.first[frame + 1] - data.first[frame], faint = Math.min(1, Math.max(0.1, 250 / count));
      for (let k = data.first[frame]; k < data.first[frame + 1]; k++) {
        const i = data.pairs[2 * k], j = data.pairs[2 * k + 1], a = where(i), b = where(j);
        if (!a || !b) continue;
        const mine = i === chosen || j === chosen;
        pen.lineWidth = mine ? 3 : 1.3;
        pen.globalAlpha = mine ? 1 : faint;
        segment(place.x(a[0]), place.y(a[1]), place.x(b[0]), place.y(b[1]));
      }
    }
    pen.globalAlpha = 1;
    if ($("points").checked) accessPoints(n);
    for (let i = 0; i < n; i++) {
      const p = where(i);
      if (!p) continue;
      marker(pen, place.x(p[0]), place.y(p[1]), i === chosen ? r * 1.35 : r, run.group[i] % 6);
      pen.fillStyle = colour(i);
      pen.fill();
      pen.strokeStyle = i === chosen ? theme.ink : $("colour").value === "group" ? theme.paper : theme.muted;
      pen.lineWidth = i === chosen ? 2 : 1;
      pen.stroke();
    }
    if (n <= 60) numbers(n, r);
  }
  function accessPoints(n) {  // places, ranges, who is served by which, and how many
    const all = run.access_points;
    pen.strokeStyle = theme.muted;
    pen.fillStyle = theme.muted;
    all.forEach(([x, y], k) => {
      if (run.ranges[k] === null || run.ranges[k] === undefined) return;
      pen.beginPath();
      pen.ellipse(place.x(x), place.y(y), run.ranges[k] * place.sx, run.ranges[k] * place.sy, 0, 0, 2 * Math.PI);
      pen.globalAlpha = 0.06;
      pen.fill();
      pen.globalAlpha = 0.6;
      pen.lineWidth = 1;
      pen.stroke();
    });
    pen.globalAlpha = 1;
    if (run.linked && $("links").checked && shift >= 1) {
      pen.lineWidth = 1;
      pen.setLineDash([3, 3]);
      for (let i = 0; i < n; i++) {
        const k = data.serving[frame * n + i], p = where(i);
        if (k === ABSENT || !p) continue;
        pen.globalAlpha = i === chosen ? 1 : Math.min(0.6, Math.max(0.12, 120 / n));
        pen.lineWidth = i === chosen ? 2.2 : 1;
        segment(place.x(p[0]), place.y(p[1]), place.x(all[k][0]), place.y(all[k][1]));
      }
      pen.setLineDash([]);
      pen.globalAlpha = 1;
    }
    pen.font = "bold 11px system-ui, sans-serif";
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    all.forEach(([x, y], k) => {
      const load = run.linked ? data.load[frame * all.length + k] : null;
      const label = load === null ? "" : String(load), half = Math.max(6, 4 + 3.4 * label.length);
      pen.beginPath();
      pen.rect(place.x(x) - half, place.y(y) - 7, 2 * half, 14);
      pen.fillStyle = theme.ink;
      pen.fill();
      pen.strokeStyle = theme.paper;
      pen.lineWidth = 1;
      pen.stroke();
      pen.fillStyle = theme.paper;
      if (label) pen.fillText(label, place.x(x), place.y(y) + 0.5);
    });
  }
  function numbers(n, r) {
    const at = new Map();  // clients may share a place: their numbers then stand together
    for (let i = 0; i < n; i++) {
      const p = where(i);
      if (!p) continue;
      const key = `${place.x(p[0]).toFixed(0)} ${place.y(p[1]).toFixed(0)}`;
      at.set(key, [...(at.get(key) || []), run.clients[i]]);
    }
    pen.font = "11px system-ui, sans-serif";
    pen.textAlign = "left";
    pen.textBaseline = "bottom";
    pen.lineWidth = 3;
    pen.strokeStyle = theme.paper;
    pen.fillStyle = theme.ink;
    for (const [key, ids] of at) {
      const [x, y] = key.split(" ").map(Number);
      pen.strokeText(ids.join(", "), x + r, y - r + 2);
      pen.fillText(ids.join(", "), x + r, y - r + 2);
    }
  }

  // Words -------------------------------------------------------------------------------------------------------
  function facts(list, into) {
    into.replaceChildren(...list.flatMap(([name, value]) => {
      const dt = document.createElement("dt"), dd = document.createElement("dd");
      dt.textContent = name;
      dd.textContent = value;
      return [dt, dd];
    }));
  }
  function show() {
    const k = judged(), round = run.rounds[frame];
    $("round").value = frame;
    $("now").textContent = `Round ${round} of ${run.rounds[run.rounds.length - 1]}`;
    $("round").setAttribute("aria-valuetext", `Round ${round}`);
    root.dataset.round = round;
    root.dataset.playing = playing;
    let served = [];
    if (run.linked) {
      const many = run.access_points.length, load = [...data.load.subarray(frame * many, (frame + 1) * many)];
      const total = load.reduce((a, b) => a + b, 0);
      served = [["Served by access points", total], ["Most at one of them", Math.max(...load)]];
    }
    facts([
      ...served,
      ...(run.meets ? [["Contacts", run.contacts[frame]], ["Without contact", `${run.alone[frame]} of ${run.all}`]] : []),
      [k < 0 ? "Accuracy" : `Accuracy, round ${run.judged[k]}`, k < 0 ? "–" : percent(run.accuracy[k])],
    ], $("status"));
    client();
    draw();
  }
  function client() {
    if (chosen < 0) {
      $("client-name").textContent = "No client chosen";
      $("client").textContent = "Point at a client, tap it, or press N and P on the map.";
      return;
    }
    const i = chosen, p = raw(frame, i), [total, top] = run.holds[i], k = judged();
    $("client-name").textContent = `Client ${run.clients[i]} (${run.groups[run.group[i]]})`;
    facts([
      ["Place", p ? `${metres(p[0])} m, ${metres(p[1])} m` : "away"],
      ...(run.meets ? [["In contact with", `${data.degrees[frame * run.clients.length + i]}`]] : []),
      [k < 0 ? "Accuracy" : `Accuracy, round ${run.judged[k]}`, percent(score(i))],
      ["Training samples", total],
      ["Most of class", top.map(([name, count]) => `${name} (${count})`).join(", ") || "–"],
      ...(run.meets ? [["Radio range", run.reach === null ? "unlimited" : `${run.reach} m`]] : []),
      ...(run.linked ? [["Access point", data.serving[frame * run.clients.length + i] === ABSENT ? "none" : `${data.serving[frame * run.clients.length + i]}`]] : []),
    ], $("client"));
  }
  function legend() {
    const box = $("legend");
    box.replaceChildren();
    if ($("colour").value === "accuracy") {
      const span = document.createElement("span"), bar = document.createElement("span");
      bar.className = "ramp";
      bar.style.background = `linear-gradient(to right, ${RAMP.map((c) => `rgb(${c})`).join(", ")})`;
      span.append(`test accuracy ${percent(data.low / SPAN)}`, bar, percent(data.high / SPAN));
      box.append(span);
    }
    run.groups.forEach((group, k) => {
      const item = document.createElement("span"), mark = document.createElement("canvas");
      look();
      mark.width = mark.height = 28;
      mark.style.cssText = "width:14px;height:14px;margin-right:.35rem;vertical-align:-2px";
      const small = mark.getContext("2d");
      small.fillStyle = $("colour").value === "group" ? theme.colours[k % 6] : theme.muted;
      marker(small, 14, 14, 10, k % 6);
      small.fill();
      item.append(mark, group);
      box.append(item);
    });
    if (run.meets) {
      const line = document.createElement("span");
      line.textContent = "line: contact" + (run.reach === null ? "" : `, within ${run.reach} m`);
      box.append(line);
    }
    if (run.access_points.length) {
      const points = document.createElement("span");
      const reach = run.ranges.some((r) => r !== null) ? ", with its range" : "";
      points.textContent = run.linked ? `■ access point${reach}; number: clients it serves; dashed: link` : `■ access point${reach}`;
      box.append(points);
    }
  }

  // Playing -----------------------------------------------------------------------------------------------------
  function go(next) {
    frame = Math.min(Math.max(next, 0), run.rounds.length - 1);
    shift = 1;
    show();
  }
  function play(on) {
    if (!data) return;
    playing = on;
    clearTimeout(timer);
    $("play").textContent = on ? "Pause" : "Play";
    $("play").setAttribute("aria-pressed", on);
    $("now").setAttribute("aria-live", on ? "off" : "polite");  // a screen reader need not say every round
    root.dataset.playing = on;
    if (on && frame >= run.rounds.length - 1) go(0);
    else { shift = 1; draw(); }
    if (on) { due = performance.now(); plan(); }
  }
  function plan() {  // the next round: a timer keeps the pace, frames of the screen only draw the way
    due = Math.max(due + 1000 / +$("speed").value, performance.now());
    timer = setTimeout(on, due - performance.now());
  }
  function on() {
    const speed = +$("speed").value, last = run.rounds.length - 1;
    frame = Math.min(frame + 1, last);
    if (frame === last) { play(false); show(); return; }
    shift = speed <= 5 && !still ? 0 : 1;
    began = performance.now();
    show();
    if (shift < 1) requestAnimationFrame(glide);
    plan();
  }
  function glide(now) {
    if (shift >= 1) return;
    // Less than half of a round's time for the way, the rest for the contacts.
    shift = Math.min(Math.max(now - began, 0) / (450 / +$("speed").value), 1);
    draw();
    requestAnimationFrame(glide);
  }

  // Choosing ----------------------------------------------------------------------------------------------------
  function nearestClient(event) {
    const box = canvas.getBoundingClientRect(), mx = event.clientX - box.left, my = event.clientY - box.top;
    let best = -1, gap = 18 ** 2;
    for (let i = 0; i < run.clients.length; i++) {
      const p = where(i);
      if (!p) continue;
      const d = (place.x(p[0]) - mx) ** 2 + (place.y(p[1]) - my) ** 2;
      if (d < gap) { gap = d; best = i; }
    }
    return best;
  }
  function pick(i, pin) {
    if (i === chosen && !pin) return;
    chosen = i;
    pinned = pin && i >= 0;
    client();
    draw();
  }
  function options(select, values) {
    select.replaceChildren(...values.map(([value, text]) => new Option(text, value)));
  }
  function seeds(wished) {
    const variant = $("variant").value, now = $("seed").value, seed = wished === undefined ? runs[now]?.seed : wished;
    const mine = runs.map((r, k) => [k, r]).filter(([, r]) => r.variant === variant);
    options($("seed"), mine.map(([k, r]) => [k, r.seed]));
    const same = mine.find(([, r]) => r.seed === seed);
    if (same) $("seed").value = same[0];
    choose(runs[$("seed").value]);
  }

  $("play").onclick = () => play(!playing);
  $("back").onclick = () => go(frame - 1);
  $("next").onclick = () => go(frame + 1);
  $("round").oninput = () => go(+$("round").value);
  $("variant").onchange = () => seeds();
  $("seed").onchange = () => choose(runs[$("seed").value]);
  $("colour").onchange = () => { legend(); draw(); };
  for (const name of ["contacts", "trails", "ranges", "points", "links"]) $(name).onchange = draw;
  canvas.onpointermove = (event) => { if (data && !pinned) pick(nearestClient(event), false); };
  canvas.onpointerleave = () => { if (data && !pinned) pick(-1, false); };
  canvas.onclick = (event) => { if (data) pick(nearestClient(event), true); };
  canvas.onkeydown = (event) => {
    if (!data || event.ctrlKey || event.metaKey || event.altKey) return;
    const n = run.clients.length, key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    const act = {
      " ": () => play(!playing), ArrowRight: () => go(frame + 1), ArrowLeft: () => go(frame - 1),
      Home: () => go(0), End: () => go(run.rounds.length - 1), Escape: () => pick(-1, true),
      n: () => pick((chosen + 1) % n, true), p: () => pick((chosen <= 0 ? n : chosen) - 1, true),
    }[key];
    if (act) { event.preventDefault(); act(); }
  };
  new ResizeObserver(() => requestAnimationFrame(draw)).observe(canvas);
  matchMedia("(prefers-color-scheme: dark)").onchange = () => { if (data) { legend(); draw(); } };
  const named = () => options($("variant"), [...new Set(runs.map((r) => r.variant))].map((name) => [name, name]));
  function update(next) {
    const before = $("variant").value, seed = run ? run.seed : null;
    runs = next.runs;
    named();
    const mine = runs.filter((r) => r.variant === before);
    $("variant").value = mine.length ? before : runs[0].variant;
    seeds(seed);
  }
  named();
  if (typeof DecompressionStream === "undefined") {
    root.dataset.state = "unsupported";
    $("client-name").textContent = "This browser is too old to play the map";
  } else {
    $("variant").value = runs[given.start].variant;
    seeds();
  }
  return { update };
};
{
  const data = document.getElementById("movement-data");
  if (data) fedroam.map(JSON.parse(data.textContent));
}
