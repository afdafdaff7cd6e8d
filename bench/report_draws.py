"""The table of `python -m bench draws`. Pure: rows in, Markdown out."""

from collections import Counter
from collections.abc import Iterator, Sequence

from bench import vendors
from bench.names import kind_and_sizes
from bench.report import markdown_table, micros, number
from bench.report_space import conditions, mean
from bench.space_rows import Row, Rows

_OURS, _STOCK = "tilefarm", "stock"
_TOLD = "How many times as fast `tilefarm` is: the geometric mean over the shapes (the least, how many)."
_BEHIND_TOLD = "Behind stock's space by more than 3 %, or the better library by more than 20 %:"
_HEAD = ("kind", "trials", "× stock", "× the better library")
_BEHIND_HEAD = ("shape", "trials", "seed", "stock, µs", "tilefarm, µs", "× stock", "× the better library")
_LEVEL, _LEAST = 0.97, 0.8


def summary(rows: Sequence[Row]) -> str:
    """A section for each CPU, the one of most rows first."""
    cpus = [cpu for cpu, _ in Counter(row.cpu for row in rows).most_common()]
    return "\n\n".join(_section(cpu, [row for row in rows if row.cpu == cpu]) for cpu in cpus)


def _section(cpu: str, rows: Sequence[Row]) -> str:
    """Where the rows come from, means by kind, and what is behind."""
    behind = sorted((row for row in rows if _is_behind(row)), key=lambda row: _speeds(row)[0] or 0.0)
    lines = [
        *(f"### Drawn shapes on `{cpu}`", "", *conditions(rows), "", _TOLD, ""),
        *markdown_table(_HEAD, list(_mean_cells(rows))),
    ]
    if behind:
        lines += ["", _BEHIND_TOLD, "", *markdown_table(_BEHIND_HEAD, [_cells(row) for row in behind])]
    return "\n".join(lines)


def _mean_cells(rows: Sequence[Row]) -> Iterator[list[str]]:
    for trials in sorted({row.trials for row in rows}):
        mine = [row for row in rows if row.trials == trials]
        kinds: dict[str, list[Row]] = {}
        for row in mine:
            kinds.setdefault(kind_and_sizes(row.workload)[0], []).append(row)
        for kind, group in (*sorted(kinds.items()), ("all", mine)):
            speeds = [_speeds(row) for row in group]
            yield [kind, str(trials), *(mean([each[column] for each in speeds]) for column in (0, 1))]


def _speeds(row: Row) -> tuple[float | None, float | None]:
    """How many times as fast ours is as stock's space, and as the better library."""
    better = Rows(rows=(row,)).times_as_fast_as_the_better(_OURS, vendors.LIBRARIES)
    return row.times_as_fast(_OURS, _STOCK), better


def _is_behind(row: Row) -> bool:
    limits = zip(_speeds(row), (_LEVEL, _LEAST), strict=True)
    return any(speed is not None and speed < limit for speed, limit in limits)


def _cells(row: Row) -> list[str]:
    times = (micros(row.secs(side)) for side in (_STOCK, _OURS))
    speeds = (number(speed, 2) for speed in _speeds(row))
    return [row.workload, str(row.trials), str(row.seed), *times, *speeds]
