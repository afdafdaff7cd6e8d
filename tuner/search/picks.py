"""The batch that a round picks: schedules that nobody knows yet, made into Candidates."""

from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

from tuner.cost_model.protocol import CostModel
from tuner.features import Rows, extract, pack
from tuner.search.genome import Genome, Sketch
from tuner.search.known import Known
from tuner.search.replay import trace_text
from tuner.search.strategy import Candidate
from tuner.trace import trace_hash


@dataclass(frozen=True, slots=True, eq=False)
class Drawn:
    """A schedule after postprocs, with what is known of it already."""

    schedule: Any
    _: KW_ONLY
    sketch: Sketch
    #: Its decisions; None where it samples in a way that is not known here.
    genome: Genome | None
    #: Structural hash (16 hex digits) of its module.
    program_hash: str
    rows: Rows | None = None


class Picks:
    """At most `count` schedules, no two of one program, none of a known program or trace."""

    def __init__(self, *, count: int, known: Known) -> None:
        self._count = count
        self._known = known
        self._picked: dict[str, tuple[Drawn, str]] = {}

    @property
    def missing(self) -> int:
        return self._count - self.picked

    @property
    def picked(self) -> int:
        return len(self._picked)

    def take(self, drawn: Iterable[Drawn], *, at_most: int | None = None) -> int:
        """Pick from the front; returns how many were new."""
        room = self.missing if at_most is None else min(self.missing, at_most)
        taken = 0
        for each in drawn:
            if taken >= room:
                break
            taken += self._take(each)
        return taken

    def candidates(self, context: Any, model: CostModel | None = None) -> tuple[Candidate, ...]:
        """In the order of picking, with features and the model's scores."""
        rows = rows_of(context, [drawn for drawn, _ in self._picked.values()])
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

    def _take(self, drawn: Drawn) -> bool:
        program_hash = drawn.program_hash
        if program_hash in self._picked or self._known.has_program(program_hash):
            return False
        text = trace_text(drawn.schedule, drawn.genome)
        if self._known.has_trace(trace_hash(text)):
            return False
        self._picked[program_hash] = (drawn, text)
        return True


def rows_of(context: Any, drawn: Sequence[Drawn]) -> list[Rows]:
    """Their features, extracted where they are not known."""
    unseen = [measure_candidate(each.schedule) for each in drawn if each.rows is None]
    extracted = iter(extract(context, unseen))
    return [next(extracted) if each.rows is None else each.rows for each in drawn]


def measure_candidate(schedule: Any) -> Any:
    from tvm.s_tir.meta_schedule import MeasureCandidate
    from tvm.s_tir.meta_schedule.arg_info import ArgInfo

    return MeasureCandidate(schedule, ArgInfo.from_entry_func(schedule.mod, remove_preproc=True))
