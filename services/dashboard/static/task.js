// The plots of a task, by plotly.js, from the columns that the service has down-sampled.
"use strict";
(() => {
  const { css, latency, config, layout, axis } = Charts;
  const box = document.getElementById("curve");
  const view = { x: "numbers", y: "log", data: null, revision: 0 };
  const WORDS = { ok: "ok", cut_off: "cut off" };
  function pick(test) {
    return view.data.trials.map((_, index) => index).filter(test);
  }
  function told(i) {
    const d = view.data;
    const words = WORDS[d.outcomes[i]] || d.outcomes[i].replaceAll("_", " ");
    return `trial ${d.trials[i]} · ${words}${d.latencies_secs[i] === null ? "" : ` · ${latency(d.latencies_secs[i])}`}`;
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
    const fastest = best.length ? d.latencies_secs[best.at(-1)] : null;
    // A bound far below what was found would press all else together: the page's text names it.
    const roofline = fastest && d.roofline_secs > fastest / 30 ? d.roofline_secs : null;
    const line = (secs, name, color, dash) => (secs ? [{ type: "scatter", mode: "lines", x: [0, end], y: [secs * 1e6, secs * 1e6], line: { color, width: 1.5, dash }, hoverinfo: "text", text: `${name}: ${latency(secs)}`, name: `${name} ${latency(secs)}` }] : []);
    const traces = [
      { type: "scatter", mode: "markers", name: "measured", x: at(ok), y: micros(ok), text: ok.map(told), customdata: ok.map((i) => d.trials[i]), hoverinfo: "text", marker: { size: 6, color: css("--s1"), opacity: ok.length > 500 ? (isDark() ? 0.65 : 0.45) : (isDark() ? 0.95 : 0.7) } },
      ...line(d.untuned_secs, "untuned", css("--soft"), "dash"),
      ...line(d.record_secs, "incumbent record", css("--s2"), "dashdot"),
      ...line(roofline, "roofline", css("--s3"), "dot"),
      { type: "scatter", mode: "lines+markers", name: "best so far", x: [...at(best), end], y: [...micros(best), ...micros(best.slice(-1))], text: [...best.map(told), ""], customdata: best.map((i) => d.trials[i]), hoverinfo: "text", line: { shape: "hv", color: css("--accent"), width: 2.5 }, marker: { size: best.map(() => 7).concat(0), color: css("--accent") } },
      // The strip of failures stays where there is none: the horizontal axis stands on it.
      { type: "scatter", mode: "markers", yaxis: "y2", x: [0], y: [0], hoverinfo: "skip", showlegend: false, marker: { opacity: 0 } },
      { type: "scatter", mode: "markers", name: "failed", showlegend: false, yaxis: "y2", x: at(bad), y: bad.map(() => 1), text: bad.map(told), customdata: bad.map((i) => d.trials[i]), hoverinfo: "text", marker: { symbol: "x-thin", size: 8, line: { width: 1.5, color: css("--bad") } } },
      { type: "scatter", mode: "markers", name: "cut off", showlegend: false, yaxis: "y2", x: at(slow), y: slow.map(() => 0), text: slow.map(told), customdata: slow.map((i) => d.trials[i]), hoverinfo: "text", marker: { symbol: "line-ns", size: 7, line: { width: 1.5, color: css("--faint") } } },
    ];
    const shown = [...micros(ok), ...[d.untuned_secs, d.record_secs, roofline].filter(Boolean).map((secs) => secs * 1e6)];
    const [low, high] = shown.length ? [Math.min(...shown), Math.max(...shown)] : [1, 10];
    const times = view.x === "at_secs";
    Plotly.react(box, traces, layout({
      datarevision: view.revision, uirevision: `${view.x}-${view.y}`, hovermode: "closest",
      showlegend: true, legend: Charts.legend(box), margin: { l: 68, r: 12, t: 34, b: 44 },
      xaxis: axis(times ? "time since the first result" : "trial", { range: [0, end * 1.01], anchor: "y2", ...(times ? Charts.seconds(end) : {}) }),
      yaxis: axis("latency", { domain: [0.16, 1], ...Charts.latencies(low, high, view.y) }),
      yaxis2: { domain: [0, 0.12], range: [-0.7, 1.7], fixedrange: true, showgrid: false, zeroline: false, tickvals: [0, 1], ticktext: ["cut off", "failed"], tickfont: { size: 10.5 } },
    }), config);
    if (!box.dataset.clicks) box.on("plotly_click", (event) => { const id = event.points[0].customdata; if (id) location.assign(`/trials/${id}`); });
    box.dataset.clicks = "1";
  }
  function model() {
    const d = view.data;
    const known = pick((i) => d.outcomes[i] === "ok" && d.predicted[i] !== null);
    if (!known.length) {
      Charts.say("model", "Nothing is predicted yet: the first trials are taken at random.");
      Charts.say("rank", "It needs two rounds that were predicted.");
      return;
    }
    const best = Math.min(...d.latencies_secs.filter((_, i) => d.outcomes[i] === "ok"));
    const last = Math.max(...known.map((i) => d.rounds[i]));
    Plotly.react("model", [{
      type: "scatter", mode: "markers", x: known.map((i) => d.predicted[i]), y: known.map((i) => best / d.latencies_secs[i]),
      text: known.map((i) => `trial ${d.trials[i]} · round ${d.rounds[i]} · ${latency(d.latencies_secs[i])}`), hoverinfo: "text",
      marker: { size: 6, opacity: 0.8, color: known.map((i) => d.rounds[i]), colorscale: "Viridis", showscale: true, colorbar: { title: { text: "round", side: "right" }, thickness: 8, outlinewidth: 0, tickformat: "d", dtick: Math.max(1, Math.round(last / 5)) } },
    }], layout({ datarevision: view.revision, xaxis: axis("predicted score"), yaxis: axis("measured score", { range: [0, 1.05] }) }), config);
    const ranks = d.rank_by_round;
    if (ranks.length < 2) { Charts.say("rank", "It needs two rounds that were predicted."); return; }
    const many = ranks.length > 40;
    Plotly.react("rank", [{
      type: "scatter", mode: many ? "lines" : "lines+markers", x: ranks.map((each) => each.round), y: ranks.map((each) => each.rank),
      text: ranks.map((each) => `round ${each.round}: ${each.rank.toFixed(2)}`), hoverinfo: "text", line: { color: css("--accent"), width: many ? 1.2 : 2 }, marker: { size: 6 },
    }], layout({ datarevision: view.revision, xaxis: axis("round", { tickformat: "d", ...(many ? {} : { dtick: Math.max(1, Math.round(ranks.length / 8)) }) }),
      yaxis: axis("rank correlation", { range: [Math.min(-0.3, ...ranks.map((each) => each.rank)) - 0.05, 1.05], zeroline: true, zerolinecolor: css("--faint") }) }), config);
  }
  function spread() {
    const bins = view.data.spread;
    if (!bins.length) { Charts.say("spread", "Nothing has been measured yet."); return; }
    const [low, high] = [Math.log10(bins[0].from_secs), Math.log10(bins.at(-1).to_secs)];
    const width = (high - low) / bins.length;
    const mid = bins.map((_, i) => low + (i + 0.5) * width);
    const micros = Units.fewer(Units.logarithmic(bins[0].from_secs * 1e6, bins.at(-1).to_secs * 1e6), Math.log, document.getElementById("spread").clientWidth / 75);
    Plotly.react("spread", [{ type: "bar", x: mid, y: bins.map((bin) => bin.trials), width, text: bins.map((bin) => `${bin.trials} from ${latency(bin.from_secs)} to ${latency(bin.to_secs)}`), textposition: "none", hoverinfo: "text", marker: { color: css("--s1"), line: { width: 1, color: css("--card") } } }],
      layout({ datarevision: view.revision, bargap: 0, xaxis: axis("latency, logarithmic", { tickangle: 0, ...Charts.ticks(micros), tickvals: micros.map((each) => Math.log10(each / 1e6)) }), yaxis: axis("trials") }), config);
  }
  function draw() {
    if (!view.data) return;
    view.revision += 1;
    if (!view.data.trials.length) {
      Charts.say("curve", "The curve begins with the first result.");
      for (const id of ["model", "rank", "spread"]) Charts.say(id, "Nothing has been measured yet.");
      return;
    }
    box.querySelector(":scope > .nothing")?.remove();
    for (const id of ["model", "rank", "spread"]) document.querySelector(`#${id} > .nothing`)?.remove();
    curve();
    model();
    spread();
  }
  async function load() {
    const found = await Charts.numbers(box.dataset.src);
    if (found) { view.data = found; draw(); }
    else if (!view.data) { Charts.say(box.id, Charts.AWAY); setTimeout(load, 3000); }
  }
  Charts.switches(view, draw);
  document.addEventListener("refreshed", load);
  document.addEventListener("themed", draw);
  document.addEventListener("DOMContentLoaded", load);
})();
