"""One workload searched in several spaces; the best of each timed beside the others and other libraries."""

import itertools
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bench import evaluate, machine, vendors
from bench.evaluate import Timed
from bench.farm import Farm
from bench.space_rows import Row, SpaceRun
from bench.space_search import TUNE_TIR, Found, of_space, of_tune_tir
from bench.suite import Workload

#: A process alone may lie on slow pages, or meet a slow moment of a shared machine.
_CARE = evaluate.Care(repeats=6, repeat_ms=20.0, processes=3)
#: In which one is chosen of the fastest: the least of many single times is often a lucky one.
_CHOICE = evaluate.Care(repeats=6, repeat_ms=20.0)


def compared(
    farm: Farm, workload: Workload, spaces: Sequence[str], *, seed: int, marks: Sequence[int]
) -> list[Row]:
    """One for each number of trials. Raises BenchError where a best trial does not build or run."""
    found = {
        space: of_tune_tir(workload, farm.target, seed=seed, marks=marks)
        if space == TUNE_TIR
        else of_space(farm, workload, space=space, seed=seed, marks=marks)
        for space in (spaces if seed % 2 == 0 else spaces[::-1])
    }
    libraries = _Libraries(workload, farm.target)
    times = _judged(workload, found, farm.target, beside=libraries.ask)
    return [
        Row(
            workload=workload.name,
            trials=trials,
            seed=seed,
            flops=workload.flops,
            bytes=parameter_bytes(workload),
            target=dict(farm.target),
            machine=str(machine.this_machine()),
            commit=machine.commit(),
            runs={space: _run(found[space][trials], times[space, trials]) for space in spaces},
            libraries=libraries.secs,
            peak_gflops=times[spaces[0], trials].peak_gflops,
            copy_gb_per_sec=times[spaces[0], trials].copy_gb_per_sec,
            quiet_peak_gflops=times[spaces[0], trials].quiet_peak_gflops,
        )
        for trials in marks
    ]


def parameter_bytes(workload: Workload) -> int:
    """Of float32. Loads TVM."""
    return sum(4 * math.prod(shape) for shape in vendors.shapes(workload.module))


def _run(found: Found, timed: Timed) -> SpaceRun:
    return SpaceRun(
        wall_secs=found.wall_secs,
        search_secs=found.search_secs,
        outcomes=found.outcomes,
        careful_secs=timed.secs,
        difference=timed.difference,
        quiet_secs=timed.quiet_secs,
    )


def _judged(
    workload: Workload,
    searches: Mapping[str, Mapping[int, Found]],
    target: Mapping[str, Any],
    *,
    beside: Callable[[], None],
) -> dict[tuple[str, int], Timed]:
    """By space and trials, the times of the one that is chosen. A trace is timed once."""
    wanted = {
        (space, trials): found.traces
        for space, founds in searches.items()
        for trials, found in founds.items()
    }
    traces = dict(itertools.chain(*(each.items() for each in wanted.values())))
    first = evaluate.timed(workload.module, traces, target, _CHOICE)
    chosen = {key: min(each, key=lambda name: first[name].secs) for key, each in wanted.items()}
    finals = {name: traces[name] for name in chosen.values()}
    times = evaluate.timed(workload.module, finals, target, _CARE, beside=beside)
    return {key: times[name] for key, name in chosen.items()}


class _Libraries:
    """What they take at several moments: a shared machine's speed changes by half within a minute."""

    def __init__(self, workload: Workload, target: Mapping[str, Any]) -> None:
        self._workload, self._target = workload, target
        self._found: dict[str, list[float | None]] = {name: [] for name in vendors.LIBRARIES}

    def ask(self) -> None:
        for name, found in self._found.items():
            found.append(vendors.secs(name, self._workload.name, self._workload.module, self._target))

    @property
    def secs(self) -> dict[str, float | None]:
        """By library, the median; None where it has no such function."""
        return {
            name: None if None in found else statistics.median(each for each in found if each is not None)
            for name, found in self._found.items()
        }
