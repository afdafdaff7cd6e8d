"""From a genome to a schedule: replay and postprocs, as TVM's evolutionary search does it."""

import re
from collections.abc import Callable
from typing import Any

from tuner.errors import TraceError
from tuner.plain_json import compact, plain
from tuner.search.genome import POSTPROC, Genome, Sketch
from tuner.search.head import Head
from tuner.trace import TVM_ERRORS, apply_to, canonical_text, untouched_schedule

_VARIABLE = re.compile(r"([blv])(\d+)")


def trace_text(schedule: Any, genome: Genome | None) -> str:
    """The canonical text of the trace whose replay this is, with what its postprocs did.

    A genome's schedule may have begun in the middle (tuner.search.head): its trace is the genome's, and of
    the schedule's what follows from the postprocs on. None: it is the schedule's.
    """
    if genome is None:
        return canonical_text(schedule.trace)
    from tvm.s_tir.schedule import Trace

    made = schedule.trace.insts
    first = next((n for n, each in enumerate(made) if str(each.kind.name) == POSTPROC), len(made))
    instructions, decisions = genome.trace()
    if first == len(instructions):  # it began at the beginning
        return canonical_text(schedule.trace)
    n_before = sum(len(outputs) for *_, outputs in instructions)
    (after, _) = plain(Trace(made[first:], {}).as_json())
    return compact([[*instructions, *_renamed(after, n_before)], decisions])


def _renamed(value: Any, n_before: int) -> Any:
    """As TVM counts variables after so many; its strings' own quotes tell them from names."""
    if isinstance(value, list):
        return [_renamed(each, n_before) for each in value]
    named = _VARIABLE.fullmatch(value) if isinstance(value, str) else None
    return f"{named[1]}{int(named[2]) + n_before}" if named else value


class Replayer:
    """Replays on one workload, under the postprocs of a TuneContext; it keeps the context alive."""

    def __init__(self, mod: Any, context: Any) -> None:
        self._untouched = untouched_schedule(mod)
        self._context = context
        self._postprocs = list(context.space_generator.postprocs or ())
        #: Postprocs that have rejected a program, by TVM's names of them.
        self.refused_by: set[str] = set()
        #: By sketch; None where its programs are replayed from the start.
        self._heads: dict[Sketch, Head | None] = {}

    def __call__(self, genome: Genome) -> Any | None:
        """A `tvm.s_tir.Schedule`; None where the decisions do not fit or a postproc rejects the program."""
        return self._finished(lambda: self._replayed(genome))

    def drawn(self, sketch: Sketch, *, rand_state: int) -> Any | None:
        """One with decisions drawn at random; None where a postproc rejects the program."""
        return self._finished(lambda: self._sampled(sketch, rand_state))

    def _sampled(self, sketch: Sketch, rand_state: int) -> Any:
        schedule = self._untouched.copy()
        schedule.seed(rand_state)
        return apply_to([sketch.instructions, []], schedule)

    def _replayed(self, genome: Genome) -> Any:
        head = self._head(genome.sketch)
        return apply_to(genome.trace(), self._untouched.copy()) if head is None else head.replayed(genome)

    def _head(self, sketch: Sketch) -> Head | None:
        if sketch not in self._heads:
            try:
                self._heads[sketch] = Head.of(sketch, self._untouched)
            except (TraceError, *TVM_ERRORS):
                self._heads[sketch] = None
        return self._heads[sketch]

    def _finished(self, replay: Callable[[], Any]) -> Any | None:
        try:
            schedule = replay()
            schedule.enter_postproc()
            refusing = next((each for each in self._postprocs if not each.apply(schedule)), None)
        except (TraceError, *TVM_ERRORS):
            return None
        if refusing is None:
            return schedule
        self.refused_by.add(type(refusing).__name__.lstrip("_"))
        return None
