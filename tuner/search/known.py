"""What a search knows: results that were told, and programs that were suggested and are still out."""

import math
from collections.abc import Iterable, Sequence

from tuner.cost_model.protocol import Sample
from tuner.features import unpack
from tuner.search.strategy import Result


class Known:
    """Its answers do not depend on the order in which results were told."""

    def __init__(self) -> None:
        self._results: dict[str, Result] = {}
        self._programs: set[str] = set()
        self._traces: set[str] = set()

    def tell(self, results: Iterable[Result]) -> None:
        """A trace that was told before changes nothing."""
        for result in results:
            self._results.setdefault(result.trace_hash, result)
            self._programs.add(result.program_hash)
            self._traces.add(result.trace_hash)

    def suggest(self, *, program_hash: str, trace_hash: str | None = None) -> None:
        """It is out: it may not be suggested again, whatever becomes of it."""
        self._programs.add(program_hash)
        if trace_hash is not None:
            self._traces.add(trace_hash)

    def has_program(self, program_hash: str) -> bool:
        return program_hash in self._programs

    def has_trace(self, trace_hash: str) -> bool:
        return trace_hash in self._traces

    @property
    def n_programs(self) -> int:
        return len(self._programs)

    def visible(self, *, up_to_round: int) -> list[Result]:
        """Results of rounds up to this one, by round and trace."""
        seen = (result for result in self._results.values() if result.round <= up_to_round)
        return sorted(seen, key=lambda result: (result.round, result.trace_hash))


def samples_of(results: Sequence[Result]) -> list[Sample]:
    """Scores relative to the best that was measured to its end; empty where none was."""
    measured = [_latency(result) for result in results if not result.censored]
    best = min(measured, default=math.inf)
    if not math.isfinite(best):
        return []
    return [
        Sample(rows=unpack(result.features), score=best / _latency(result), censored=_is_bound(result))
        for result in results
    ]


def best_traces(results: Sequence[Result], *, count: int) -> list[str]:
    """Traces of the fastest results, the fastest first; only what was measured to its end."""
    timed = [result for result in results if result.trace and not result.censored and _succeeded(result)]
    timed.sort(key=lambda result: (_latency(result), result.trace_hash))
    return [result.trace for result in timed[:count] if result.trace is not None]


def scored_traces(results: Sequence[Result], *, count: int) -> dict[str, float]:
    """The traces of the fastest results with their scores, 1 for the fastest."""
    traces = best_traces(results, count=count)
    latency_of = {result.trace: _latency(result) for result in results if result.trace}
    return {trace: latency_of[traces[0]] / latency_of[trace] for trace in traces}


def _succeeded(result: Result) -> bool:
    return result.latency_secs is not None and 0 < result.latency_secs < math.inf


def _is_bound(result: Result) -> bool:
    return result.censored and _succeeded(result)


def _latency(result: Result) -> float:
    """Infinite for a failure: its score is then 0."""
    return result.latency_secs if result.latency_secs is not None and _succeeded(result) else math.inf
