// The step line of a job's weighted latency: SVG made of the page's own numbers.
"use strict";
(() => {
  const NS = "http://www.w3.org/2000/svg";
  const { latency } = Units;
  // Where the pointer is, in pixels from the left; it stays there while the chart is drawn anew.
  let pointed = null;
  function make(parent, name, attributes, text) {
    const element = document.createElementNS(NS, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    if (text !== undefined) element.textContent = text;
    parent.append(element);
    return element;
  }
  function say(box, text) {
    const said = document.createElement("p");
    said.className = "nothing";
    said.textContent = text;
    box.replaceChildren(said);
  }
  function axes(svg, { x, y, left, right, height, times, values }) {
    for (const value of values) {
      make(svg, "line", { class: "grid", x1: left, x2: right, y1: y(value), y2: y(value) });
      make(svg, "text", { x: left - 8, y: y(value) + 4, "text-anchor": "end" }, latency(value));
    }
    for (const secs of times) {
      const anchor = secs === 0 ? "start" : x(secs) > right - 20 ? "end" : "middle";
      make(svg, "text", { x: x(secs), y: height - 4, "text-anchor": anchor }, Units.span(secs));
    }
  }
  // What stood at the moment that is pointed at.
  function reader(svg, { times, values, untuned, end, y, left, right, top, bottom }) {
    const mark = make(svg, "g", { class: "mark" });
    const show = () => {
      mark.replaceChildren();
      if (pointed === null || pointed < left || pointed > right) return;
      const secs = (end * (pointed - left)) / (right - left);
      const value = values[times.findLastIndex((each) => each <= secs)] ?? untuned;
      if (!value) return;
      make(mark, "line", { x1: pointed, x2: pointed, y1: top, y2: bottom });
      make(mark, "circle", { cx: pointed, cy: y(value), r: 3.5 });
      const faster = untuned ? ` · ${Number((untuned / value).toPrecision(3))}×` : "";
      const before = pointed > (left + right) / 2;
      make(mark, "text", { x: pointed + (before ? -9 : 9), y: Math.max(top + 12, y(value) - 10), "text-anchor": before ? "end" : "start" }, `${Units.span(secs)} · ${latency(value)}${faster}`);
    };
    svg.addEventListener("pointermove", (event) => { pointed = event.clientX - svg.getBoundingClientRect().left; show(); });
    svg.addEventListener("pointerleave", () => { pointed = null; show(); });
    show();
  }
  function draw() {
    const box = document.getElementById("steps");
    const data = JSON.parse(document.getElementById("steps-data").textContent);
    const { times_secs: times, latencies_secs: values, untuned_secs: untuned } = data;
    if (!values.length) {
      say(box, data.now_secs === null ? "The curve begins when every task has been measured and one got faster." : "No curve: no task got faster, or not every one was measured.");
      return;
    }
    box.replaceChildren();
    const [width, height] = [box.clientWidth, box.clientHeight];
    const [left, right, top, bottom] = [64, width - 8, 10, height - 24];
    const end = Math.max(...times, data.now_secs ?? 0) || 1;
    const [low, high] = [Math.min(...values), Math.max(...values, untuned ?? 0)];
    const useLog = high / low > 6;
    const [floor, roof] = useLog ? [low / 1.6, high * 1.15] : [low * 0.8, high * 1.03];
    const scale = useLog ? Math.log : (value) => value;
    const x = (secs) => left + (secs / end) * (right - left);
    const y = (secs) => bottom - ((scale(secs) - scale(floor)) / (scale(roof) - scale(floor))) * (bottom - top);
    const svg = make(box, "svg", { role: "img", "aria-label": `weighted latency from ${latency(high)} to ${latency(low)}` });
    axes(svg, { x, y, left, right, height, times: Units.times(end, Math.max(3, Math.floor(width / 150))), values: useLog ? Units.logarithmic(floor, roof) : Units.linear(floor, roof, 4) });
    if (untuned) {
      make(svg, "line", { class: "untuned", x1: left, x2: right, y1: y(untuned), y2: y(untuned) });
      make(svg, "text", { x: right, y: y(untuned) + 15, "text-anchor": "end" }, `untuned ${latency(untuned)}`);
    }
    let path = untuned ? `M${x(0)} ${y(untuned)}` : `M${x(times[0])} ${y(values[0])}`;
    times.forEach((secs, index) => { path += `H${x(secs)}V${y(values[index])}`; });
    path += `H${x(end)}`;
    make(svg, "path", { class: "area", d: `${path}V${bottom}H${untuned ? x(0) : x(times[0])}Z` });
    make(svg, "path", { class: "line", d: path });
    make(svg, "text", { class: "now", x: right, y: y(values.at(-1)) - 8, "text-anchor": "end" }, latency(values.at(-1)));
    reader(svg, { times, values, untuned, end, y, left, right, top, bottom });
  }
  document.addEventListener("refreshed", draw);
  document.addEventListener("themed", draw);
  addEventListener("resize", draw);
  document.addEventListener("DOMContentLoaded", draw);
})();
