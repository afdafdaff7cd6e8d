"""The tables of `python -m bench stock`. Pure: comparisons in, Markdown out."""

from collections import Counter
from collections.abc import Callable, Sequence

from bench.comparison import (
    QUALITIES,
    SIDES,
    Comparison,
    Judged,
    cpu_secs,
    final_secs,
    flushed_secs,
    secs_per_trial,
    wall_secs,
)
from bench.curves import geometric_mean
from bench.report import markdown_table, micros, number, target_text

_PARTS = (("wall-clock", wall_secs), ("CPU seconds", cpu_secs), ("final latency", final_secs))


def tables(comparisons: Sequence[Comparison]) -> str:
    lines = [*_conditions(comparisons), ""]
    lines += [*_speed(comparisons), "", *_means(comparisons), "", *_quality(comparisons), ""]
    return "\n".join([*lines, *_time_to(comparisons)])


def pictures(comparisons: Sequence[Comparison]) -> str:
    return "\n".join(
        f"![{c.workload}: best so far over time](benchmarks/{c.workload}.svg)" for c in comparisons
    )


def _conditions(comparisons: Sequence[Comparison]) -> list[str]:
    pairs = [pair for comparison in comparisons for pair in comparison.pairs]
    where = Counter(f"{pair.machine}; target `{target_text(pair.target)}`" for pair in pairs)
    commits = ", ".join(sorted({pair.commit for pair in pairs}))
    options = {str(pair.options) for pair in pairs if pair.options}
    lines = [f"{machine}: {count} {'pair' if count == 1 else 'pairs'}." for machine, count in where.items()]
    lines += [
        f"Commits {commits}. Seconds are medians over the seeds; × is the median of the seeds' ratios,",
        "stock over ours, each of two runs on one machine, one after the other: above 1 ours is better.",
        "Wall-clock includes the start-up of each side, a fresh service for each of our runs.",
    ]
    if older := sum(pair.stock_cached for pair in pairs):
        lines.append(f"In {older} of {len(pairs)} pairs stock's run is of an earlier hour.")
    if options:
        lines.append(f"Options of our jobs: {'; '.join(sorted(options))}.")
    return lines


def _speed(comparisons: Sequence[Comparison]) -> list[str]:
    head = ["workload", "trials", "seeds", "wall-clock, s: stock", "ours", "×", "trials/s: stock", "ours"]
    rows = [
        [
            *(c.workload, str(c.trials), str(len(c.pairs))),
            *(number(c.median(side, wall_secs)) for side in SIDES),
            *(
                f"**{number(c.ratio(wall_secs), 2)}**",
                number(_rate(c, "stock"), 2),
                number(_rate(c, "ours"), 2),
            ),
            *(number(c.median(side, cpu_secs)) for side in SIDES),
            number(c.ratio(cpu_secs), 2),
        ]
        for c in comparisons
    ]
    return markdown_table([*head, "CPU seconds: stock", "ours", "×"], rows)


def _rate(comparison: Comparison, side: str) -> float | None:
    secs = comparison.median(side, secs_per_trial)
    return 1.0 / secs if secs else None


def _means(comparisons: Sequence[Comparison]) -> list[str]:
    parts = []
    for name, figure in _PARTS:
        ratios = [ratio for c in comparisons if (ratio := c.ratio(figure)) is not None]
        parts.append(f"{name} {number(geometric_mean(ratios), 2)}×")
    return [f"Geometric mean of the ratios: {', '.join(parts)}."]


def _quality(comparisons: Sequence[Comparison]) -> list[str]:
    head = ["workload", "untuned, µs", "final, µs: stock", "ours", "× (least–most)", "GFLOP/s"]
    rows = [
        [
            *(c.workload, micros(c.untuned_secs)),
            *(micros(c.median(side, final_secs)) for side in SIDES),
            *(_with_spread(c), number(_gflops(c))),
            *(micros(c.median(side, flushed_secs)) for side in SIDES),
            *(number(c.ratio(flushed_secs), 3), _worst(c, lambda judged: judged.difference)),
        ]
        for c in comparisons
    ]
    more = ["caches flushed, µs: stock", "ours", "×", "largest difference to untuned"]
    return markdown_table([*head, *more], rows)


def _with_spread(comparison: Comparison) -> str:
    spread = comparison.spread(final_secs)
    between = (
        f" ({number(spread[0], 2)}–{number(spread[1], 2)})" if spread and len(comparison.pairs) > 1 else ""
    )
    return f"**{number(comparison.ratio(final_secs), 3)}**{between}"


def _gflops(comparison: Comparison) -> float | None:
    secs = comparison.median("ours", final_secs)
    return comparison.flops / secs / 1e9 if secs else None


def _worst(comparison: Comparison, figure: Callable[[Judged], float]) -> str:
    worst = max(figure(judged) for side in SIDES for judged in comparison.of(side))
    return f"{worst:.0e}"


def _time_to(comparisons: Sequence[Comparison]) -> list[str]:
    head = ["seconds (trials) to"]
    for quality in QUALITIES:
        head += [f"{quality:.0%} of stock's best: stock", "ours", "×"]
    rows = []
    for c in comparisons:
        row = [c.workload]
        for quality in QUALITIES:
            row += [*(_reached(c, side, quality) for side in SIDES), number(c.ratio_to(quality), 2)]
        rows.append(row)
    return markdown_table(head, rows)


def _reached(comparison: Comparison, side: str, quality: float) -> str:
    secs, trials = comparison.secs_to(side, quality), comparison.trials_to(side, quality)
    points = comparison.reached(side, quality)
    seeds = sum(point is not None for point in points)
    text = f"{number(secs)} ({number(trials, 0)})" if secs is not None else "–"
    return text if seeds == len(points) else f"{text}, {seeds} of {len(points)} seeds"
