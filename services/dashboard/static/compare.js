// The step lines of several jobs, or the medians of strategies, on one axis, by plotly.js.
"use strict";
(() => {
  const { css, axis, layout, config } = Charts;
  const view = { x: "numbers", y: "log" };
  const DASHES = ["solid", "dash", "dot", "dashdot"];
  const style = (index) => ({ shape: "hv", width: 2.5, color: css(`--s${index % 8}`), dash: DASHES[Math.floor(index / 2) % 4] });
  const micros = (secs) => secs.map((each) => each * 1e6);
  const told = (name, values) => values.map((secs) => `${name}: ${Charts.latency(secs)}`);
  function jobs(lines) {
    return lines.map((line, index) => {
      const end = view.x === "numbers" ? line.trials : Math.max(0, ...line.at_secs);
      const values = [...line.latencies_secs, ...line.latencies_secs.slice(-1)];
      return { type: "scatter", mode: "lines", name: line.name, x: [...line[view.x], ...(line.latencies_secs.length ? [end] : [])], y: micros(values), text: told(line.name, values), hoverinfo: "text", line: style(index) };
    });
  }
  function strategies(found) {
    return found.flatMap((each, index) => {
      const fill = css(`--s${index % 8}`);
      const band = { type: "scatter", mode: "lines", x: each.numbers, line: { shape: "hv", width: 0, color: fill }, hoverinfo: "skip", showlegend: false };
      return [
        { ...band, y: micros(each.least_secs) },
        { ...band, y: micros(each.most_secs), fill: "tonexty", fillcolor: Charts.faded(fill, 0.18) },
        { type: "scatter", mode: "lines", name: `${each.name}, ${each.jobs} job${each.jobs === 1 ? "" : "s"}`, x: each.numbers, y: micros(each.medians_secs), text: told(each.name, each.medians_secs), hoverinfo: "text", line: style(index) },
      ];
    });
  }
  function draw() {
    const box = document.getElementById("curve");
    if (!box) return;
    const { by, lines, strategies: found, budget } = JSON.parse(document.getElementById("lines").textContent);
    const traces = by === "job" ? jobs(lines) : strategies(found);
    const all = traces.flatMap((trace) => trace.y);
    if (!all.length) { Charts.say("curve", "None of these jobs has a weighted latency yet: every task must have been measured."); return; }
    const [low, high] = [Math.min(...all), Math.max(...all)];
    const times = by === "job" && view.x === "at_secs";
    Plotly.newPlot(box, traces, layout({
      margin: { l: 68, r: 12, t: 34, b: 44 }, showlegend: true, legend: Charts.legend(box), hovermode: "closest",
      xaxis: axis(times ? "time since the job began" : "trial", { rangemode: "tozero", ...(times ? Charts.seconds(Math.max(...traces.flatMap((trace) => trace.x))) : {}) }),
      yaxis: axis("weighted latency", Charts.latencies(low, high, view.y)),
      shapes: by === "job" && view.x === "numbers" && lines.length > 1 ? [{ type: "line", x0: budget, x1: budget, y0: 0, y1: 1, yref: "paper", line: { color: css("--faint"), dash: "dot", width: 1 } }] : [],
    }), config);
  }
  Charts.switches(view, draw);
  document.addEventListener("themed", draw);
  document.addEventListener("DOMContentLoaded", draw);
})();
