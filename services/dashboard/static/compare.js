// The step lines of several jobs on one axis, by plotly.js.
"use strict";
(() => {
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const view = { x: "numbers", y: "log" };
  function draw() {
    const box = document.getElementById("curve");
    if (!box) return;
    const { lines, budget } = JSON.parse(document.getElementById("lines").textContent);
    const traces = lines.map((line, index) => {
      const end = view.x === "numbers" ? line.trials : Math.max(0, ...line.at_secs);
      const last = line.latencies_secs.slice(-1);
      return {
        type: "scatter", mode: "lines", name: line.name, hoverinfo: "name+x+y",
        x: [...line[view.x], ...(last.length ? [end] : [])], y: [...line.latencies_secs, ...last].map((secs) => secs * 1e6),
        line: { shape: "hv", width: 2.5, color: css(`--s${index % 8}`), dash: ["solid", "dash", "dot", "dashdot"][Math.floor(index / 2) % 4] },
      };
    });
    const axis = (title, more) => ({ title: { text: title, standoff: 8 }, gridcolor: css("--line"), linecolor: css("--line"), zeroline: false, automargin: true, ...more });
    Plotly.newPlot(box, traces, {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", margin: { l: 62, r: 12, t: 30, b: 44 }, showlegend: true,
      font: { family: "system-ui, sans-serif", size: 12, color: css("--soft") }, datarevision: `${view.x}${view.y}${document.documentElement.dataset.theme}`,
      legend: { orientation: "h", x: 1, xanchor: "right", y: 1.02, yanchor: "bottom", bgcolor: "rgba(0,0,0,0)" },
      hoverlabel: { bgcolor: css("--card"), bordercolor: css("--line"), font: { color: css("--ink") }, namelength: 40 },
      xaxis: axis(view.x === "numbers" ? "trial" : "seconds since the job began", { rangemode: "tozero" }),
      yaxis: axis("weighted latency (µs)", { type: view.y, ...(view.y === "log" ? { dtick: "D2" } : { rangemode: "tozero", tickmode: "auto", nticks: 8 }) }),
      shapes: view.x === "numbers" && lines.length > 1 ? [{ type: "line", x0: budget, x1: budget, y0: 0, y1: 1, yref: "paper", line: { color: css("--faint"), dash: "dot", width: 1 } }] : [],
    }, { displayModeBar: false, responsive: true });
  }
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-x], [data-y]");
    if (!button) return;
    if (button.dataset.x) view.x = button.dataset.x; else view.y = button.dataset.y;
    for (const each of button.parentElement.children) each.setAttribute("aria-pressed", String(each === button));
    draw();
  });
  document.addEventListener("themed", draw);
  document.addEventListener("DOMContentLoaded", draw);
})();
