"""The table of `python -m bench space`. Pure: rows in, Markdown out."""

import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from bench import vendors
from bench.report import markdown_table, micros, number, target_text
from bench.space_rows import Row, Rows
from bench.workloads import LISTS

#: In the order of lines; with what the last one is compared.
_SPACES = ("stock", "tune_tir", "tilefarm")
_OTHERS = ("stock", "tune_tir", *vendors.LIBRARIES)
_GROUPS = {
    "suite": LISTS["suite"],
    "suite and extension": (*LISTS["suite"], *LISTS["extension"]),
    "unseen": LISTS["unseen"],
    "fresh": LISTS["fresh"],
    "layers": LISTS["layers"],
    "sizes": LISTS["sizes"],
    "fused": LISTS["fused"],
    "parts": LISTS["parts"],
    "drawn": LISTS["drawn"],
    "all": LISTS["all"],
}
_MEDIANS_TOLD = "Times are medians over the seeds, × are medians of the seeds' ratios."
_MEANS_TOLD = "How many times as fast `tilefarm` is: the geometric mean over workloads (the least, how many)."
_MEANS = (*(f"× {name}" for name in _OTHERS), "× the better library")
_HEAD = (
    *("workload", "cores", "trials", "seeds", "space", "best, µs (least–most)", "GFLOP/s", "% of peak"),
    *("quiet", "% of copy", *(f"× {name}" for name in _OTHERS), "search, s", "wall, s", "not ok"),
)


def summary(kept: Mapping[str, Sequence[Rows]]) -> str:
    """A section for each CPU."""
    return "\n\n".join(f"### Spaces on `{cpu}`\n\n{_section(rows)}" for cpu, rows in kept.items())


def _section(kept: Sequence[Rows]) -> str:
    """Where the rows come from, the table, and means by cores and trials."""
    where = conditions([row for rows in kept for row in rows.rows])
    return "\n".join([*where, _MEDIANS_TOLD, "", table(kept), "", _MEANS_TOLD, "", _means(kept)])


def table(kept: Sequence[Rows]) -> str:
    cells = [_cells(rows, space) for rows in kept for space in _SPACES if rows.runs(space)]
    return "\n".join(markdown_table(_HEAD, cells))


def conditions(every: Sequence[Row]) -> list[str]:
    """Where rows come from."""
    where = Counter(f"{row.machine}; target `{target_text(row.target)}`" for row in every)
    commits = ", ".join(sorted({row.commit for row in every}))
    lines = [f"{machine}: {count} {'row' if count == 1 else 'rows'}." for machine, count in where.items()]
    return [
        *lines,
        f"Commits {commits}.",
    ]


def _cells(rows: Rows, space: str) -> list[str]:
    first, runs = rows.first, rows.runs(space)
    secs = [run.careful_secs for run in runs]
    failed = sum(count for run in runs for outcome, count in run.outcomes.items() if outcome != "ok")
    spread = f" ({micros(min(secs))}–{micros(max(secs))})" if len(secs) > 1 else ""
    return [
        *(first.workload, str(first.cores), str(first.trials), str(len(runs)), space),
        micros(statistics.median(secs)) + spread,
        number(first.flops / statistics.median(secs) / 1e9, 0),
        _percent(rows.share_of_peak(space)),
        _percent(rows.quiet_share_of_peak(space)),
        _percent(rows.share_of_copy(space)),
        *(number(rows.times_as_fast(space, name), 2) for name in _OTHERS),
        number(_median(run.search_secs for run in runs)),
        number(_median(run.wall_secs for run in runs)),
        str(failed),
    ]


def _means(kept: Sequence[Rows]) -> str:
    """How many times as fast `tilefarm` is as each other, in the mean over workloads."""
    return "\n".join(markdown_table(("workloads", "cores", "trials", *_MEANS), list(_mean_cells(kept))))


def _mean_cells(kept: Sequence[Rows]) -> Iterator[list[str]]:
    for cores, trials in dict.fromkeys((rows.first.cores, rows.first.trials) for rows in kept):
        mine = [rows for rows in kept if (rows.first.cores, rows.first.trials) == (cores, trials)]
        before: list[Rows] = []
        for group, names in _GROUPS.items():
            rows = [each for each in mine if each.first.workload in names]
            if rows and rows != before:
                yield [group, str(cores), str(trials), *_means_of(rows)]
            before = rows or before


def _means_of(kept: Sequence[Rows]) -> Iterator[str]:
    for other in _OTHERS:
        yield mean([rows.times_as_fast(_SPACES[-1], other) for rows in kept])
    yield mean([rows.times_as_fast_as_the_better(_SPACES[-1], vendors.LIBRARIES) for rows in kept])


def mean(ratios: Sequence[float | None]) -> str:
    """The geometric mean of those that are known, with the least and how many these are."""
    known = [ratio for ratio in ratios if ratio is not None]
    return f"{statistics.geometric_mean(known):.2f} ({min(known):.2f}, {len(known)})" if known else "–"


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def _percent(share: float | None) -> str:
    return number(None if share is None else 100 * share, 0)
