"""The batch that a round picks: schedules that nobody knows yet, made into Candidates."""

from collections.abc import Iterable
from typing import Any

from tuner.cost_model.protocol import CostModel
from tuner.features import extract, pack
from tuner.module import structural_hash
from tuner.search.known import Known
from tuner.search.strategy import Candidate
from tuner.trace import canonical_text, trace_hash


class Picks:
    """At most `count` schedules, no two of one program, none of a known program or trace."""

    def __init__(self, *, count: int, known: Known) -> None:
        self._count = count
        self._known = known
        self._picked: dict[str, tuple[Any, str]] = {}

    @property
    def missing(self) -> int:
        return self._count - len(self._picked)

    def take(self, schedules: Iterable[Any], *, at_most: int | None = None) -> int:
        """Pick from the front; returns how many were new."""
        room = self.missing if at_most is None else min(self.missing, at_most)
        taken = 0
        for schedule in schedules:
            if taken >= room:
                break
            taken += self._take(schedule)
        return taken

    def candidates(self, context: Any, model: CostModel | None = None) -> tuple[Candidate, ...]:
        """In the order of picking, with features and the model's scores."""
        rows = extract(context, [_measure_candidate(schedule) for schedule, _ in self._picked.values()])
        scores = model.predict(rows) if model is not None else None
        return tuple(
            Candidate(
                trace=text,
                trace_hash=trace_hash(text),
                program_hash=program_hash,
                features=pack(rows[index]),
                predicted_score=None if scores is None else float(scores[index]),
            )
            for index, (program_hash, (_, text)) in enumerate(self._picked.items())
        )

    def _take(self, schedule: Any) -> bool:
        program_hash = structural_hash(schedule.mod)
        if program_hash in self._picked or self._known.has_program(program_hash):
            return False
        text = canonical_text(schedule.trace)
        if self._known.has_trace(trace_hash(text)):
            return False
        self._picked[program_hash] = (schedule, text)
        return True


def _measure_candidate(schedule: Any) -> Any:
    from tvm.s_tir.meta_schedule import MeasureCandidate
    from tvm.s_tir.meta_schedule.arg_info import ArgInfo

    return MeasureCandidate(schedule, ArgInfo.from_entry_func(schedule.mod, remove_preproc=True))
