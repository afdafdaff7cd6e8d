"""The tables of `python -m bench stock`. Pure: comparisons in, Markdown out."""

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
from bench.stock import Check

_PARTS = (("wall-clock", wall_secs), ("CPU seconds", cpu_secs), ("final latency", final_secs))


def tables(comparisons: Sequence[Comparison], checks: Sequence[Check]) -> str:
    lines = [*_conditions(comparisons), ""]
    lines += [*_speed(comparisons), "", *_means(comparisons), "", *_quality(comparisons), ""]
    lines += [*_time_to(comparisons), "", *_pictures(comparisons)]
    return "\n".join([*lines, *_checks(checks)])


def _conditions(comparisons: Sequence[Comparison]) -> list[str]:
    first = comparisons[0]
    commits = ", ".join(sorted({comparison.commit for comparison in comparisons}))
    options = {str(comparison.options) for comparison in comparisons if comparison.options}
    lines = [
        f"{first.machine}; target `{target_text(first.target)}`; commit {commits}.",
        "Medians over the seeds, A and B interleaved; × is stock over ours, so above 1 ours is better.",
        "Wall-clock includes the start-up of each side, a fresh service for each of our runs.",
    ]
    if options:
        lines.append(f"Options of our jobs: {'; '.join(sorted(options))}.")
    return lines


def _speed(comparisons: Sequence[Comparison]) -> list[str]:
    head = ["workload", "trials", "seeds", "wall-clock, s: stock", "ours", "×", "trials/s: stock", "ours"]
    rows = [
        [
            *(c.workload, str(c.trials), str(c.seeds)),
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
    return [f"Geometric mean of the medians' ratios: {', '.join(parts)}."]


def _quality(comparisons: Sequence[Comparison]) -> list[str]:
    head = ["workload", "untuned, µs", "final, µs: stock (least–most)", "ours (least–most)", "×", "GFLOP/s"]
    rows = [
        [
            *(c.workload, micros(c.untuned_secs)),
            *(_with_spread(c, side) for side in SIDES),
            *(f"**{number(c.ratio(final_secs), 3)}**", number(_gflops(c))),
            *(micros(c.median(side, flushed_secs)) for side in SIDES),
            *(number(c.ratio(flushed_secs), 3), _worst(c, lambda judged: judged.difference)),
        ]
        for c in comparisons
    ]
    more = ["caches flushed, µs: stock", "ours", "×", "largest difference to untuned"]
    return markdown_table([*head, *more], rows)


def _with_spread(comparison: Comparison, side: str) -> str:
    least, most = comparison.spread(side, final_secs)
    return f"{micros(comparison.median(side, final_secs))} ({micros(least)}–{micros(most)})"


def _gflops(comparison: Comparison) -> float | None:
    secs = comparison.median("ours", final_secs)
    return comparison.flops / secs / 1e9 if secs else None


def _worst(comparison: Comparison, figure: Callable[[Judged], float]) -> str:
    return f"{max(figure(judged) for judged in comparison.runs):.0e}"


def _time_to(comparisons: Sequence[Comparison]) -> list[str]:
    head = ["seconds (trials) to"]
    for quality in QUALITIES:
        head += [f"{quality:.0%} of stock's best: stock", "ours", "×"]
    rows = []
    for c in comparisons:
        row = [c.workload]
        for quality in QUALITIES:
            stock, ours = (c.secs_to(side, quality) for side in SIDES)
            ratio = stock / ours if stock is not None and ours else None
            row += [*(_reached(c, side, quality) for side in SIDES), number(ratio, 2)]
        rows.append(row)
    return markdown_table(head, rows)


def _reached(comparison: Comparison, side: str, quality: float) -> str:
    secs, trials = comparison.secs_to(side, quality), comparison.trials_to(side, quality)
    points = comparison.reached(side, quality)
    seeds = sum(point is not None for point in points)
    text = f"{number(secs)} ({number(trials, 0)})" if secs is not None else "–"
    return text if seeds == len(points) else f"{text}, {seeds} of {len(points)} seeds"


def _pictures(comparisons: Sequence[Comparison]) -> list[str]:
    return [f"![{c.workload}: best so far over time](benchmarks/{c.workload}.svg)" for c in comparisons]


def _checks(checks: Sequence[Check]) -> list[str]:
    """Whether cached stock runs still hold."""
    lines = []
    for check in checks:
        verdict = "still holds" if check.holds else "**does not hold any more: run stock again**"
        secs = f"{check.cached_secs:.1f} s then and {check.now_secs:.1f} s now"
        lines.append(f"Stock's cached {check.workload}: {check.trials} trials took {secs}; it {verdict}.")
    return ["", *lines] if lines else []
