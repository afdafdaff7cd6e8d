// What the plots of all pages share: colours of the theme, axes, units, the switches, plotly's settings.
"use strict";
const Charts = (() => {
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const latency = (secs) => {
    const [scale, unit] = secs >= 1 ? [1, "s"] : secs >= 1e-3 ? [1e-3, "ms"] : secs >= 1e-6 ? [1e-6, "µs"] : [1e-9, "ns"];
    return `${Number((secs / scale).toPrecision(3))} ${unit}`;
  };
  // Viridis, from good (dark in light theme, bright in dark) to bad: lightness alone tells it too.
  const STOPS = [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]];
  const viridis = (part) => {
    const at = Math.min(0.9999, Math.max(0, part)) * (STOPS.length - 1);
    const [one, other] = [STOPS[Math.floor(at)], STOPS[Math.floor(at) + 1]];
    return `rgb(${one.map((value, i) => Math.round(value + (other[i] - value) * (at % 1))).join(",")})`;
  };
  const dark = () => getComputedStyle(document.documentElement).colorScheme === "dark";
  const config = { displayModeBar: false, responsive: true };
  const layout = (more) => ({
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", margin: { l: 62, r: 12, t: 10, b: 44 },
    font: { family: "system-ui, sans-serif", size: 12, color: css("--soft") }, showlegend: false,
    hoverlabel: { bgcolor: css("--card"), bordercolor: css("--line"), font: { color: css("--ink") }, namelength: 40 }, ...more,
  });
  const axis = (title, more) => ({ title: { text: title, standoff: 8 }, gridcolor: css("--line"), zeroline: false, linecolor: css("--line"), automargin: true, ...more });
  const legend = () => ({ orientation: "h", x: 1, xanchor: "right", y: 1.02, yanchor: "bottom", bgcolor: "rgba(0,0,0,0)" });
  // Ticks in the units that people read: 50 µs, 1 ms. In microseconds, as the axes are.
  const latencyTicks = (low, high) => {
    const steps = Math.log10(high / low) > 2.5 ? [1] : Math.log10(high / low) > 1.2 ? [1, 3] : [1, 2, 3, 5, 7];
    const values = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power += 1) {
      for (const step of steps) values.push(step * 10 ** power);
    }
    return { tickvals: values, ticktext: values.map((micros) => latency(micros / 1e6)) };
  };
  // The switches of a card: [data-x] and [data-y] buttons change the view and draw again.
  const switches = (view, draw) => document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-x], [data-y]");
    if (!button) return;
    if (button.dataset.x) view.x = button.dataset.x; else view.y = button.dataset.y;
    for (const each of button.parentElement.children) each.setAttribute("aria-pressed", String(each === button));
    draw();
  });
  // Reads a chart's numbers; null where they are as before, or the service does not answer.
  const etags = new Map();
  async function numbers(path) {
    const headers = etags.has(path) ? { "If-None-Match": etags.get(path) } : {};
    const answer = await fetch(path, { headers }).catch(() => null);
    if (!answer?.ok) return null;
    const found = await answer.json().catch(() => null);
    if (found) etags.set(path, answer.headers.get("ETag"));
    return found;
  }
  function say(id, text) {
    const box = document.getElementById(id);
    if (box.classList.contains("js-plotly-plot")) Plotly.purge(box);
    const said = document.createElement("p");
    said.className = "nothing";
    said.textContent = text;
    box.replaceChildren(said);
  }
  return { css, latency, viridis, dark, config, layout, axis, legend, latencyTicks, switches, numbers, say };
})();
