// The decisions explorer: parallel coordinates as SVG (plotly's own need eval, which our policy forbids).
// An axis is a decision; a line is a trial, coloured by its latency. Buttons at the values filter.
"use strict";
(() => {
  const NS = "http://www.w3.org/2000/svg";
  const box = document.getElementById("decisions");
  const said = document.getElementById("decisions-said");
  if (!box) return;
  const view = { data: null, kept: new Map(), seen: false };
  function make(parent, name, attributes, text) {
    const element = document.createElementNS(NS, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    if (text !== undefined) element.textContent = text;
    parent.append(element);
    return element;
  }
  const key = (value) => (value === null ? "–" : String(value));
  function order(values) {
    const distinct = [...new Map(values.map((value) => [key(value), value])).values()];
    return distinct.sort((a, b) => (typeof a === "number" && typeof b === "number" ? a - b : key(a).localeCompare(key(b), undefined, { numeric: true }))).map(key);
  }
  function passes(trial) {
    return [...view.kept].every(([axis, values]) => !values.size || values.has(key(view.data.axes[axis].values[trial])));
  }
  function draw() {
    const { axes, trials, latencies_secs: latencies } = view.data;
    box.replaceChildren();
    if (axes.length < 1 || trials.length < 4) { said.textContent = "It needs a few measured trials whose decisions differ."; return; }
    const width = Math.max(box.clientWidth, 112 * (axes.length + 1));
    const [height, top, bottom, left, right] = [400, 62, 376, 58, width - 74];
    const x = (index) => left + (index / axes.length) * (right - left);
    const logs = latencies.map(Math.log);
    const [low, high] = [Math.min(...logs), Math.max(...logs)];
    const part = (trial) => (logs[trial] - low) / (high - low || 1);
    const dark = isDark();
    const colour = (trial) => Charts.viridis(dark ? 1 - 0.85 * part(trial) : 0.9 * part(trial));
    const places = axes.map((axis) => order(axis.values));
    const y = (index, value) => { const at = places[index]; const place = at.indexOf(key(value)); return at.length < 2 ? (top + bottom) / 2 : bottom - 10 - (place / (at.length - 1)) * (bottom - top - 20); };
    const yLatency = (trial) => top + 10 + (1 - part(trial)) * (bottom - top - 20);
    const svg = make(box, "svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": `Sampled decisions of ${trials.length} trials, the most telling first: ${axes.map((axis) => `${axis.name} ${axis.part}`).join(", ")}` });
    const lines = make(svg, "g", { class: "lines" });
    let shown = 0;
    for (let trial = trials.length - 1; trial >= 0; trial -= 1) {
      const on = passes(trial);
      shown += on;
      // A little sideways shift by rank parts lines that share values.
      const shift = ((trial * 7919) % 13) - 6;
      const points = axes.map((axis, index) => [x(index), y(index, axis.values[trial]) + shift * 0.7]);
      const middle = (a, b) => `C${(a[0] + b[0]) / 2} ${a[1]} ${(a[0] + b[0]) / 2} ${b[1]} ${b[0]} ${b[1]}`;
      points.push([right, yLatency(trial)]);
      const path = points.slice(1).map((point, index) => middle(points[index], point)).join("");
      const line = make(lines, "path", { d: `M${points[0][0]} ${points[0][1]}${path}`, stroke: on ? colour(trial) : Charts.css("--line"), "stroke-width": on ? (trial === 0 ? 3 : trial < 10 ? 1.8 : 1) : 0.7, opacity: on ? (trial < 10 ? 1 : 0.55) : 0.35 });
      if (on) line.dataset.trial = trial;
    }
    axes.forEach((axis, index) => {
      const group = make(svg, "g", {});
      make(group, "line", { class: "axis", x1: x(index), x2: x(index), y1: top, y2: bottom });
      const words = axis.name.split(" ");
      const cut = Math.ceil(words.length / 2);
      [words.slice(0, cut).join(" "), words.slice(cut).join(" "), axis.part && `factor ${axis.part}`].filter(Boolean).forEach((text, line) => {
        const label = make(group, "text", { class: line === 2 ? "part" : "name", x: x(index), y: 12 + line * 14, "text-anchor": index === 0 ? "start" : "middle", ...(index === 0 ? { dx: -left + 2 } : {}) }, text.length > 17 ? `${text.slice(0, 16)}…` : text);
        make(label, "title", {}, `${axis.name} ${axis.part}: explains ${(100 * axis.explains).toFixed(0)} % of the differences in latency`);
      });
      const every = Math.ceil(places[index].length / 14);
      places[index].forEach((value, place) => {
        if (place % every) return;
        const on = view.kept.get(index)?.has(value);
        // A plate keeps the value readable on the lines that meet there.
        const at = y(index, axis.values.find((each) => key(each) === value));
        make(group, "rect", { x: x(index) + 2, y: at - 7, width: 6.4 * value.length + 6, height: 14, rx: 3 });
        const text = make(group, "text", { class: on ? "value on" : "value", x: x(index) + 5, y: at + 4, tabindex: 0, role: "button", "aria-pressed": String(Boolean(on)), "aria-label": `${axis.name} ${axis.part}: only ${value}` }, value);
        text.dataset.axis = index;
        text.dataset.value = value;
      });
    });
    make(svg, "line", { class: "axis", x1: right, x2: right, y1: top, y2: bottom });
    make(svg, "text", { class: "name", x: right + 70, y: 12, "text-anchor": "end" }, "latency");
    [0, 1 / 3, 2 / 3, 1].forEach((each) => make(svg, "text", { class: "tick", x: right + 7, y: top + 14 + (1 - each) * (bottom - top - 20) }, Charts.latency(Math.exp(low + each * (high - low)))));
    said.textContent = view.kept.size ? `${shown} of ${trials.length} trials` : `${trials.length} trials: the fastest and a sample of all. A value filters; a line leads to its trial.`;
    document.getElementById("decisions-clear").hidden = !view.kept.size;
  }
  function toggle(target) {
    const [axis, value] = [Number(target.dataset.axis), target.dataset.value];
    const kept = view.kept.get(axis) || new Set();
    if (!kept.delete(value)) kept.add(value);
    if (kept.size) view.kept.set(axis, kept); else view.kept.delete(axis);
    draw();
    box.querySelector(`[data-axis="${axis}"][data-value="${CSS.escape(value)}"]`)?.focus();
  }
  box.addEventListener("click", (event) => {
    const [value, line] = [event.target.closest("[data-value]"), event.target.closest("[data-trial]")];
    if (value) toggle(value);
    else if (line) location.assign(`/trials/${view.data.trials[line.dataset.trial]}`);
  });
  box.addEventListener("keydown", (event) => {
    const value = event.target.closest("[data-value]");
    if (value && (event.key === "Enter" || event.key === " ")) { event.preventDefault(); toggle(value); }
  });
  box.addEventListener("pointerover", (event) => {
    const line = event.target.closest("[data-trial]");
    box.querySelectorAll(".over").forEach((each) => each.classList.remove("over"));
    if (!line) return;
    line.classList.add("over");
    const trial = Number(line.dataset.trial);
    said.textContent = `trial ${view.data.trials[trial]} · ${Charts.latency(view.data.latencies_secs[trial])}`;
  });
  document.getElementById("decisions-clear").addEventListener("click", () => { view.kept.clear(); draw(); });
  async function load() {
    if (!view.seen || view.data && (view.kept.size || box.matches(":hover"))) return;
    const found = await Charts.numbers(box.dataset.src);
    if (found) { view.data = found; draw(); }
    else if (!view.data) { said.textContent = Charts.AWAY; setTimeout(load, 3000); }
  }
  new IntersectionObserver((entries) => { if (entries.some((each) => each.isIntersecting)) { view.seen = true; if (!view.data) load(); } }, { rootMargin: "200px" }).observe(box);
  document.addEventListener("refreshed", load);
  document.addEventListener("themed", () => view.data && draw());
  addEventListener("resize", () => view.data && draw());
})();
