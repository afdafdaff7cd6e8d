// What the plots of all pages share: colours of the theme, axes, units, the switches, plotly's settings.
"use strict";
const Charts = (() => {
  // A colour of the theme, as the browser resolves it: rgb(…).
  const probe = document.createElement("i");
  const css = (name) => {
    if (!probe.isConnected) { probe.hidden = true; document.body.append(probe); }
    probe.style.color = `var(${name})`;
    return getComputedStyle(probe).color;
  };
  const { latency } = Units;
  // Viridis, from good (dark in light theme, bright in dark) to bad: lightness alone tells it too.
  const STOPS = [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]];
  const viridis = (part) => {
    const at = Math.min(0.9999, Math.max(0, part)) * (STOPS.length - 1);
    const [one, other] = [STOPS[Math.floor(at)], STOPS[Math.floor(at) + 1]];
    return `rgb(${one.map((value, i) => Math.round(value + (other[i] - value) * (at % 1))).join(",")})`;
  };
  const faded = (colour, alpha) => colour.replace("rgb(", "rgba(").replace(")", `, ${alpha})`);
  const config = { displayModeBar: false, responsive: true };
  const layout = (more) => ({
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", margin: { l: 62, r: 12, t: 10, b: 44 },
    font: { family: "system-ui, sans-serif", size: 12, color: css("--soft") }, showlegend: false,
    hoverlabel: { bgcolor: css("--card"), bordercolor: css("--line"), font: { color: css("--ink") }, namelength: 40 }, ...more,
  });
  const axis = (title, more) => ({ title: { text: title, standoff: 8 }, gridcolor: css("--line"), zeroline: false, linecolor: css("--line"), automargin: true, ...more });
  // Above the plot; below it where there is no room for one line.
  const legend = (box) => (box.clientWidth < 700
    ? { orientation: "h", traceorder: "normal", x: 0, y: -0.2, yanchor: "top", bgcolor: "rgba(0,0,0,0)" }
    : { orientation: "h", traceorder: "normal", x: 1, xanchor: "right", y: 1.02, yanchor: "bottom", bgcolor: "rgba(0,0,0,0)" });
  // An axis of latencies, drawn in microseconds, with ticks in the units that people read: 50 µs, 1 ms.
  const ticks = (micros) => ({ tickmode: "array", tickvals: micros, ticktext: micros.map((each) => (each ? latency(each / 1e6) : "0")) });
  const latencies = (low, high, scale) => (scale === "log"
    ? { type: "log", ...ticks(Units.logarithmic(low / 1.25, high * 1.25)), range: [Math.log10(low / 1.25), Math.log10(high * 1.25)] }
    : { range: [0, high * 1.05], ...ticks(Units.linear(0, high)) });
  const seconds = (end) => { const at = Units.times(end); return { tickmode: "array", tickvals: at, ticktext: at.map(Units.span) }; };
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
  const AWAY = "The service does not answer. Trying again …";
  return { AWAY, css, latency, faded, viridis, config, layout, axis, legend, ticks, latencies, seconds, switches, numbers, say };
})();
