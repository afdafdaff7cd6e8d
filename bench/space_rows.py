"""Rows of `python -m bench space`, kept beside the table: seeds run on different days add up."""

import dataclasses
import json
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from bench.report import PICTURES, cpu_name

DIRECTORY = PICTURES / "space"


@dataclass(frozen=True, slots=True, kw_only=True)
class SpaceRun:
    """One search of one space, one of its fastest trials timed by the careful evaluator."""

    #: None where the search went on beyond these trials, and it is not known.
    wall_secs: float | None
    search_secs: float | None
    outcomes: dict[str, int]
    careful_secs: float
    #: Largest difference to the untuned output, relative to the largest output.
    difference: float
    #: Of one call in a quiet moment of the host; None in rows older than this.
    quiet_secs: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One seed of one workload: a run of each space, and other libraries, timed beside each other."""

    workload: str
    trials: int
    seed: int
    flops: float
    #: Of all parameters.
    bytes: int
    target: dict[str, Any]
    machine: str
    commit: str
    runs: dict[str, SpaceRun]
    #: Seconds of a call; None where a library has no such function, or is not installed.
    libraries: dict[str, float | None]
    peak_gflops: float
    #: None where it was not measured beside the row.
    copy_gb_per_sec: float | None
    #: In the quiet moments of as many calls; None in rows older than this.
    quiet_peak_gflops: float | None = None

    @classmethod
    def from_json(cls, obj: Mapping[str, Any]) -> Self:
        return cls(**{**obj, "runs": {space: SpaceRun(**run) for space, run in obj["runs"].items()}})

    @property
    def cores(self) -> int:
        return int(self.target["num-cores"])

    @property
    def cpu(self) -> str:
        return cpu_name(self.target)

    @property
    def file_name(self) -> str:
        return f"{self.workload.replace(':', '-')}-{self.cpu}-{self.cores}c-{self.trials}-{self.seed}.json"

    def secs(self, name: str) -> float | None:
        """Of a space's best, or of a library's function; None where there is no such time."""
        run = self.runs.get(name)
        return self.libraries.get(name) if run is None else run.careful_secs

    def times_as_fast(self, space: str, other: str) -> float | None:
        """What `other` takes over what the best of `space` takes."""
        theirs, ours = self.secs(other), self.secs(space)
        return theirs / ours if theirs and ours else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """All seeds of one workload with the same trials on as many cores of one kind of CPU."""

    rows: tuple[Row, ...]

    @property
    def first(self) -> Row:
        return self.rows[0]

    def runs(self, space: str) -> list[SpaceRun]:
        return [row.runs[space] for row in self.rows if space in row.runs]

    def times_as_fast(self, space: str, other: str) -> float | None:
        """The median of the seeds' ratios; each is of one moment on one machine."""
        known = [ratio for row in self.rows if (ratio := row.times_as_fast(space, other)) is not None]
        return statistics.median(known) if known else None

    def times_as_fast_as_the_better(self, space: str, others: Iterable[str]) -> float | None:
        """The median of the seeds' ratios to the fastest of several."""
        found = [
            min(ratios)
            for row in self.rows
            if (ratios := [each for other in others if (each := row.times_as_fast(space, other)) is not None])
        ]
        return statistics.median(found) if found else None

    def share_of_peak(self, space: str) -> float | None:
        """Of multiply-adds in registers on all cores of the target: the median over the seeds."""
        return self._median_share(space, lambda row: row.flops / row.peak_gflops)

    def quiet_share_of_peak(self, space: str) -> float | None:
        """The same of a call in a quiet moment, of the peak in quiet moments: what neighbours leave alone."""
        runs = [(row, row.runs[space].quiet_secs) for row in self.rows if space in row.runs]
        shares = [
            row.flops / row.quiet_peak_gflops / secs / 1e9
            for row, secs in runs
            if secs is not None and row.quiet_peak_gflops is not None
        ]
        return statistics.median(shares) if shares else None

    def share_of_copy(self, space: str) -> float | None:
        """Of a copy of as many bytes as the parameters have: the median over the seeds."""
        return self._median_share(space, lambda row: row.copy_gb_per_sec and row.bytes / row.copy_gb_per_sec)

    def _median_share(self, space: str, best_nanos: Callable[[Row], float | None]) -> float | None:
        runs = [(best_nanos(row), row.runs[space]) for row in self.rows if space in row.runs]
        shares = [nanos / run.careful_secs / 1e9 for nanos, run in runs if nanos is not None]
        return statistics.median(shares) if shares else None


def keep(row: Row, *, directory: Path = DIRECTORY) -> Path:
    """Replaces the row of the same workload, CPU, cores, trials and seed."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / row.file_name
    path.write_text(json.dumps(dataclasses.asdict(row)) + "\n")
    return path


def every(directory: Path) -> list[Row]:
    """All that are kept there, by the names of their files."""
    return [Row.from_json(json.loads(path.read_text())) for path in sorted(directory.glob("*.json"))]


def kept(names: Iterable[str], *, directory: Path = DIRECTORY) -> dict[str, list[Rows]]:
    """By CPU, the one of most rows first; there by cores and trials, then in the order of `names`."""
    order = {name: place for place, name in enumerate(names)}
    found = every(directory)
    rows = sorted((row for row in found if row.workload in order), key=lambda row: (row.cpu, row.seed))
    groups: dict[tuple[str, int, int, int], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.cpu, -row.cores, row.trials, order[row.workload]), []).append(row)
    return {
        cpu: [Rows(rows=tuple(group)) for key, group in sorted(groups.items()) if key[0] == cpu]
        for cpu, _ in Counter(row.cpu for row in rows).most_common()
    }
