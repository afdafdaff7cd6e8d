"""The picture of a comparison: best so far against wall-clock, every seed a line. Pure."""

from bench import svg
from bench.comparison import SIDES, Comparison, Judged, final_secs

#: They differ in lightness too, for those who do not see the hue.
_COLOURS = {"stock": "#6b7a8c", "ours": "#d9480f"}
_NAMES = {"stock": "stock ms.tune_tir", "ours": "tilefarm"}


def best_so_far(comparison: Comparison) -> str:
    """An SVG. Latencies are the careful evaluator's; a line ends when its run ended."""
    stock_best = (comparison.median("stock", final_secs) or 0.0) * 1e6
    runs = [judged for side in SIDES for judged in comparison.of(side)]
    seeds = "one seed" if len(comparison.pairs) == 1 else f"{len(comparison.pairs)} seeds"
    return svg.render(
        svg.Chart(
            title=f"{comparison.workload}: best so far, {comparison.trials} trials, {seeds}",
            x_label="seconds since the start, start-up included",
            y_label="latency, µs",
            colours={_NAMES[side]: _COLOURS[side] for side in SIDES},
            lines=[_line(judged) for judged in runs],
            levels=[svg.Level(y=stock_best, text=f"stock's best, median: {stock_best:,.0f} µs")],
        )
    )


def _line(judged: Judged) -> svg.Steps:
    points = [(point.secs, point.latency_secs * 1e6) for point in judged.curve]
    return svg.Steps(group=_NAMES[judged.run.side], points=points, until=judged.run.wall_secs)
