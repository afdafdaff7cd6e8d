// The plots of a task, by plotly.js, from the columns that the service has down-sampled.
"use strict";
(() => {
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const box = document.getElementById("curve");
  const view = { x: "numbers", y: "log", data: null, revision: 0 };
  const latency = (secs) => {
    const [scale, unit] = secs >= 1 ? [1, "s"] : secs >= 1e-3 ? [1e-3, "ms"] : [1e-6, "µs"];
    return `${Number((secs / scale).toPrecision(3))} ${unit}`;
  };
  const config = { displayModeBar: false, responsive: true };
  const layout = (more) => ({
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", margin: { l: 62, r: 12, t: 10, b: 44 },
    font: { family: "system-ui, sans-serif", size: 12, color: css("--soft") }, showlegend: false,
    hoverlabel: { bgcolor: css("--card"), bordercolor: css("--line"), font: { color: css("--ink") } },
    datarevision: view.revision, uirevision: `${view.x}-${view.y}`, ...more,
  });
  const axis = (title, more) => ({ title: { text: title, standoff: 8 }, gridcolor: css("--line"), zeroline: false, linecolor: css("--line"), automargin: true, ...more });
  function pick(test) {
    return view.data.trials.map((_, index) => index).filter(test);
  }
  function curve() {
    const d = view.data;
    const ok = pick((i) => d.outcomes[i] === "ok");
    const slow = pick((i) => d.outcomes[i] === "cut_off");
    const bad = pick((i) => d.outcomes[i] !== "ok" && d.outcomes[i] !== "cut_off");
    const best = pick((i) => d.improvements[i]);
    const xs = d[view.x];
    const end = Math.max(1, ...xs);
    const at = (indices) => indices.map((i) => xs[i]);
    const micros = (indices) => indices.map((i) => d.latencies_secs[i] * 1e6);
    const told = (indices) => indices.map((i) => `trial ${d.trials[i]} · ${d.outcomes[i].replace("_", " ")}${d.latencies_secs[i] === null ? "" : ` · ${latency(d.latencies_secs[i])}`}`);
    const line = (secs, name, color) => (secs ? [{ type: "scatter", mode: "lines", x: [0, end], y: [secs * 1e6, secs * 1e6], line: { color, width: 1, dash: "dash" }, hoverinfo: "skip", name }] : []);
    const traces = [
      { type: "scatter", mode: "markers", name: "measured", x: at(ok), y: micros(ok), text: told(ok), customdata: ok.map((i) => d.trials[i]), hoverinfo: "text", marker: { size: 6, color: css("--s1"), opacity: 0.7 } },
      ...line(d.untuned_secs, "untuned", css("--soft")),
      ...line(d.record_secs, "record", css("--s2")),
      { type: "scatter", mode: "lines+markers", name: "best so far", x: [...at(best), end], y: [...micros(best), ...micros(best.slice(-1))], text: [...told(best), ""], hoverinfo: "text", line: { shape: "hv", color: css("--accent"), width: 2.5 }, marker: { size: best.map(() => 7).concat(0), color: css("--accent") } },
      // The strip of failures stays where there is none: the horizontal axis stands on it.
      { type: "scatter", mode: "markers", yaxis: "y2", x: [0], y: [0], hoverinfo: "skip", showlegend: false, marker: { opacity: 0 } },
      { type: "scatter", mode: "markers", name: "failed", yaxis: "y2", x: at(bad), y: bad.map(() => 1), text: told(bad), customdata: bad.map((i) => d.trials[i]), hoverinfo: "text", marker: { symbol: "x-thin", size: 8, line: { width: 1.5, color: css("--bad") } } },
      { type: "scatter", mode: "markers", name: "cut off", yaxis: "y2", x: at(slow), y: slow.map(() => 0), text: told(slow), customdata: slow.map((i) => d.trials[i]), hoverinfo: "text", marker: { symbol: "line-ns", size: 7, line: { width: 1.5, color: css("--faint") } } },
    ];
    Plotly.react(box, traces, layout({
      showlegend: true, legend: { orientation: "h", x: 1, xanchor: "right", y: 1.02, yanchor: "bottom", bgcolor: "rgba(0,0,0,0)" }, margin: { l: 62, r: 12, t: 30, b: 44 },
      hovermode: "closest",
      xaxis: axis(view.x === "numbers" ? "trial" : "seconds since the first result", { range: [0, end * 1.02], anchor: "y2" }),
      yaxis: axis("latency (µs)", { type: view.y, domain: [0.13, 1], ...(view.y === "log" ? { dtick: "D2" } : { rangemode: "tozero", tickmode: "auto", nticks: 8 }) }),
      yaxis2: { domain: [0, 0.09], range: [-0.7, 1.7], fixedrange: true, showgrid: false, zeroline: false, tickvals: [0, 1], ticktext: ["cut off", "failed"], tickfont: { size: 10.5 } },
    }), config);
    if (!box.dataset.clicks) box.on("plotly_click", (event) => { const id = event.points[0].customdata; if (id) location.assign(`/trials/${id}`); });
    box.dataset.clicks = "1";
  }
  function model() {
    const d = view.data;
    const known = pick((i) => d.outcomes[i] === "ok" && d.predicted[i] !== null);
    if (!known.length) { say("model", "The cost model has predicted nothing yet: the first trials are taken at random."); return; }
    const best = Math.min(...d.latencies_secs.filter((secs, i) => d.outcomes[i] === "ok"));
    const rank = d.rank_by_round.at(-1);
    Plotly.react("model", [{
      type: "scatter", mode: "markers", x: known.map((i) => d.predicted[i]), y: known.map((i) => best / d.latencies_secs[i]),
      text: known.map((i) => `trial ${d.trials[i]} · round ${d.rounds[i]} · ${latency(d.latencies_secs[i])}`), hoverinfo: "text",
      marker: { size: 6, opacity: 0.75, color: known.map((i) => d.rounds[i]), colorscale: "Viridis", showscale: true, colorbar: { title: { text: "round", side: "right" }, thickness: 8, outlinewidth: 0, tickformat: "d", dtick: Math.max(1, Math.round(Math.max(...known.map((i) => d.rounds[i])) / 5)) } },
    }], layout({ xaxis: axis("predicted score"), yaxis: axis("measured score", { range: [0, 1.05] }),
      annotations: rank ? [{ text: `rank correlation of round ${rank.round}: ${rank.rank.toFixed(2)}`, x: 0.01, y: 1.04, xref: "paper", yref: "paper", xanchor: "left", yanchor: "bottom", showarrow: false }] : [], margin: { l: 62, r: 12, t: 26, b: 44 } }), config);
  }
  function spread() {
    const d = view.data;
    const secs = d.latencies_secs.filter((value, i) => d.outcomes[i] === "ok");
    if (!secs.length) { say("spread", "Nothing has been measured yet."); return; }
    const logs = secs.map(Math.log10);
    const [low, high, bins] = [Math.min(...logs), Math.max(...logs), 30];
    const width = (high - low || 1) / bins;
    const counts = new Array(bins).fill(0);
    logs.forEach((value) => { counts[Math.min(bins - 1, Math.floor((value - low) / width))] += 1; });
    const mid = counts.map((_, i) => low + (i + 0.5) * width);
    const ticks = [0, 1, 2, 3].map((i) => low + (i / 3) * bins * width);
    Plotly.react("spread", [{ type: "bar", x: mid, y: counts, width, text: counts.map((n, i) => `${n} near ${latency(10 ** mid[i])}`), textposition: "none", hoverinfo: "text", marker: { color: css("--s1"), line: { width: 1, color: css("--card") } } }],
      layout({ xaxis: axis("latency, logarithmic", { tickvals: ticks, ticktext: ticks.map((t) => latency(10 ** t)), showgrid: false }), yaxis: axis("trials") }), config);
  }
  function say(id, text) {
    const said = document.createElement("p");
    said.className = "nothing";
    said.textContent = text;
    document.getElementById(id).replaceChildren(said);
  }
  function draw() {
    if (!view.data) return;
    view.revision += 1;
    if (!view.data.total) { ["curve", "model", "spread"].forEach((id) => say(id, "The first results come in a moment.")); return; }
    for (const id of ["curve", "model", "spread"]) document.querySelector(`#${id} > .nothing`)?.remove();
    curve();
    model();
    spread();
  }
  async function load() {
    const answer = await fetch(box.dataset.src).catch(() => null);
    if (!answer?.ok) return;
    view.data = await answer.json();
    draw();
  }
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-x], [data-y]");
    if (!button) return;
    if (button.dataset.x) view.x = button.dataset.x; else view.y = button.dataset.y;
    for (const each of button.parentElement.children) each.setAttribute("aria-pressed", String(each === button));
    draw();
  });
  document.addEventListener("refreshed", load);
  document.addEventListener("themed", draw);
  document.addEventListener("DOMContentLoaded", load);
  const scripts = document.getElementById("scripts");
  scripts?.addEventListener("toggle", async () => {
    if (!scripts.open || scripts.dataset.loaded) return;
    scripts.dataset.loaded = "1";
    const answer = await fetch(scripts.dataset.src).catch(() => null);
    const said = answer ? await answer.json() : { detail: "The service does not answer." };
    if (!answer?.ok) { document.getElementById("scripts-said").textContent = said.detail; delete scripts.dataset.loaded; return; }
    for (const id of ["trace", "untuned", "tuned"]) { const pre = document.getElementById(id); pre.textContent = said[id]; highlight(pre); }
    document.getElementById("scripts-said").hidden = true;
    document.getElementById("scripts-shown").hidden = false;
  });
})();
