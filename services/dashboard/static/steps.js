// The step line of a job's weighted latency: SVG made of the page's own numbers.
"use strict";
(() => {
  const NS = "http://www.w3.org/2000/svg";
  const make = (parent, name, attributes, text) => {
    const element = document.createElementNS(NS, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    if (text !== undefined) element.textContent = text;
    parent.append(element);
    return element;
  };
  const latency = (secs) => {
    const [scale, unit] = secs >= 1 ? [1, "s"] : secs >= 1e-3 ? [1e-3, "ms"] : [1e-6, "µs"];
    return `${Number((secs / scale).toPrecision(3))} ${unit}`;
  };
  const span = (secs) => (secs >= 5400 ? `${(secs / 3600).toFixed(1)} h` : secs >= 90 ? `${Math.round(secs / 60)} min` : `${Math.round(secs)} s`);
  function draw() {
    const box = document.getElementById("steps");
    const data = JSON.parse(document.getElementById("steps-data").textContent);
    const { times_secs: times, latencies_secs: values, untuned_secs: untuned } = data;
    box.replaceChildren();
    if (!values.length) {
      const said = document.createElement("p");
      said.className = "nothing";
      said.textContent = "The curve begins when every task has been measured and one got faster.";
      box.append(said);
      return;
    }
    const [width, height] = [box.clientWidth, box.clientHeight];
    const [left, right, top, bottom] = [64, width - 8, 10, height - 24];
    const end = Math.max(...times, data.now_secs ?? 0) || 1;
    const high = Math.max(...values, untuned ?? 0);
    const low = Math.min(...values);
    const floor = Math.max(low * 0.8, Number.MIN_VALUE);
    const useLog = high / floor > 8;
    const scale = useLog ? Math.log : (value) => value;
    const x = (secs) => left + (secs / end) * (right - left);
    const y = (secs) => bottom - ((scale(secs) - scale(floor)) / (scale(high * 1.02) - scale(floor))) * (bottom - top);
    const svg = make(box, "svg", { role: "img", "aria-label": `weighted latency from ${latency(high)} to ${latency(low)}` });
    for (let i = 0; i <= 3; i += 1) {
      const value = useLog ? Math.exp(scale(floor) + (i / 3) * (scale(high) - scale(floor))) : floor + (i / 3) * (high - floor);
      make(svg, "line", { class: "grid", x1: left, x2: right, y1: y(value), y2: y(value) });
      make(svg, "text", { x: left - 8, y: y(value) + 4, "text-anchor": "end" }, latency(value));
      make(svg, "text", { x: x((i / 3) * end), y: height - 4, "text-anchor": i === 0 ? "start" : i === 3 ? "end" : "middle" }, span((i / 3) * end));
    }
    if (untuned) {
      make(svg, "line", { class: "untuned", x1: left, x2: right, y1: y(untuned), y2: y(untuned) });
      make(svg, "text", { x: right, y: y(untuned) + 14, "text-anchor": "end" }, `untuned ${latency(untuned)}`);
    }
    let path = untuned ? `M${x(0)} ${y(untuned)}` : `M${x(times[0])} ${y(values[0])}`;
    times.forEach((secs, index) => { path += `H${x(secs)}V${y(values[index])}`; });
    path += `H${right}`;
    make(svg, "path", { class: "area", d: `${path}V${bottom}H${untuned ? x(0) : x(times[0])}Z` });
    make(svg, "path", { class: "line", d: path });
  }
  document.addEventListener("DOMContentLoaded", draw);
  document.addEventListener("refreshed", draw);
  addEventListener("resize", draw);
})();
