"""From a genome to a schedule: replay and postprocs, as TVM's evolutionary search does it."""

from typing import Any

from tuner.errors import TraceError
from tuner.search.genome import Genome, Sketch
from tuner.trace import TVM_ERRORS, apply_trace


class Replayer:
    """Replays on one workload, under the postprocs of a TuneContext; it keeps the context alive."""

    def __init__(self, mod: Any, context: Any) -> None:
        self._mod = mod
        self._context = context
        self._postprocs = list(context.space_generator.postprocs or ())

    def __call__(self, genome: Genome) -> Any | None:
        """A `tvm.s_tir.Schedule`; None where the decisions do not fit or a postproc rejects the program."""
        return self._replayed(genome.trace(), rand_state=1)

    def drawn(self, sketch: Sketch, *, rand_state: int) -> Any | None:
        """One with decisions drawn at random; None where a postproc rejects the program."""
        return self._replayed([sketch.instructions, []], rand_state=rand_state)

    def _replayed(self, trace: Any, *, rand_state: int) -> Any | None:
        try:
            schedule = apply_trace(trace, self._mod, rand_state=rand_state)
            schedule.enter_postproc()
            fits = all(postproc.apply(schedule) for postproc in self._postprocs)
        except (TraceError, *TVM_ERRORS):
            return None
        return schedule if fits else None
