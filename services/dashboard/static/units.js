// Seconds as people read them, and the ticks of axes that show them.
"use strict";
const Units = (() => {
  const latency = (secs) => {
    const [scale, unit] = secs >= 1 ? [1, "s"] : secs >= 1e-3 ? [1e-3, "ms"] : secs >= 1e-6 ? [1e-6, "µs"] : [1e-9, "ns"];
    return `${Number((secs / scale).toPrecision(3))} ${unit}`;
  };
  const span = (secs) => {
    if (secs < 60) return `${Number(secs.toPrecision(3))} s`;
    secs = Math.round(secs);
    const [size, unit, rest] = secs >= 86400 ? [86400, "d", "h"] : secs >= 3600 ? [3600, "h", "min"] : [60, "min", "s"];
    const small = size === 86400 ? 3600 : size / 60;
    const all = Math.round(secs / small);
    const [whole, part] = [Math.floor(all / (size / small)), all % (size / small)];
    return part ? `${whole} ${unit} ${part} ${rest}` : `${whole} ${unit}`;
  };
  // Round numbers from low to high: 1, 2, 5 and their tens, some `most` of them.
  function linear(low, high, most = 6) {
    const rough = (high - low) / most || 1;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough);
    const found = [];
    for (let n = Math.ceil(low / step); n * step <= high * (1 + 1e-9); n += 1) found.push(n * step);
    return found;
  }
  function logarithmic(low, high) {
    const wide = Math.log10(high / low);
    const steps = wide > 3.6 ? [1] : wide > 1.2 ? [1, 3] : [1, 2, 3, 5, 7];
    const found = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power += 1) {
      for (const step of steps) found.push(step * 10 ** power);
    }
    return found.filter((each) => each >= low * 0.999 && each <= high * 1.001);
  }
  // Of ticks those that stand apart: on an axis of `scale` with room for `most` of them.
  function fewer(ticks, scale, most) {
    const least = (scale(ticks.at(-1)) - scale(ticks[0])) / Math.max(1, most);
    const kept = [];
    for (const tick of ticks) if (!kept.length || scale(tick) - scale(kept.at(-1)) >= least) kept.push(tick);
    return kept;
  }
  const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 43200, 86400];
  function times(end, most = 6) {
    const step = STEPS.find((each) => end / each <= most) ?? 86400 * Math.ceil(end / 86400 / most);
    return Array.from({ length: Math.floor(end / step) + 1 }, (_, n) => n * step);
  }
  return { latency, span, linear, logarithmic, fewer, times };
})();
