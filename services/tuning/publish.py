"""What becomes a record: a pure decision on a search's best trials, its confirmations and the incumbent.

A record is published only after a second measurement, and replaces another only when it beat that one
interleaved on one device. Where no candidate beats the untuned module, that one is the record: the empty
trace. Nothing here reads or writes rows.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from db.publishing import Confirmation, Contender, Incumbent
from db.states import OPEN_TRIALS, Outcome, TrialState
from services.tuning.settings import TunerSettings

#: Confirmations that may come to nothing before a search stops proposing further ones.
_MAX_UNSOUND = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """All that the decision looks at."""

    incumbent: Incumbent | None
    #: OK search trials, best first, and the baseline among them.
    contenders: Sequence[Contender]
    confirmations: Sequence[Confirmation]

    @property
    def any_candidate(self) -> bool:
        """Something that was searched measured OK: the baseline alone makes no record."""
        return any(not contender.baseline for contender in self.contenders)

    @property
    def untuned_secs(self) -> float:
        return min((own.latency_secs for own in self.contenders if own.baseline), default=math.inf)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """At most one of the three is set; none of them means that nothing is left to do."""

    #: The confirm trial to publish.
    publish: Confirmation | None = None
    #: Contenders to measure for a second time, against the incumbent.
    confirm: Sequence[Contender] = ()
    #: Confirmations are under way.
    waiting: bool = False

    @property
    def settled(self) -> bool:
        return self.publish is None and not self.confirm and not self.waiting


def decide(evidence: Evidence, settings: TunerSettings, *, ending: bool, round_: int) -> Decision:
    """What to publish or confirm; `ending` where a task waits for its end, else only clear gains count."""
    winner = _winner(evidence)
    if winner is not None:
        return Decision(publish=winner)
    if any(confirmation.state in OPEN_TRIALS for confirmation in evidence.confirmations):
        return Decision(waiting=True)
    if not evidence.any_candidate:
        return Decision()
    if ending:
        return Decision(confirm=_last_contenders(evidence, settings.confirm_count))
    return Decision(confirm=_clear_gain(evidence, settings.confirm_early_ratio, round_))


def _winner(evidence: Evidence) -> Confirmation | None:
    """Of the confirmations that beat the very record that stands now, the one that beat it by most.

    Each met that record at another moment, and on a shared host one moment is half as fast as the next:
    their ratios to it compare, their own times do not.
    """
    winners = [
        confirmation for confirmation in evidence.confirmations if _won(confirmation, evidence.incumbent)
    ]
    return min(winners, key=_ratio_to_incumbent, default=None)


def _won(confirmation: Confirmation, incumbent: Incumbent | None) -> bool:
    if not _sound(confirmation) or confirmation.published:
        return False
    if incumbent is None:
        return confirmation.incumbent_record_id is None
    against_it = confirmation.incumbent_record_id == incumbent.record_id
    its_secs = confirmation.incumbent_latency_secs
    return against_it and its_secs is not None and _latency(confirmation) < its_secs


def _last_contenders(evidence: Evidence, count: int) -> list[Contender]:
    """Those of the best `count` that lack a confirmation that says something about today's incumbent."""
    by_trace = {confirmation.trace_hash: confirmation for confirmation in evidence.confirmations}
    unsound = sum(_unsound(confirmation) for confirmation in evidence.confirmations)
    missing: list[Contender] = []
    sound = 0
    for contender in _faster_programs(evidence):
        confirmation = by_trace.get(contender.trace_hash)
        if confirmation is not None and _unsound(confirmation):
            continue
        if sound >= count or unsound >= _MAX_UNSOUND:
            break
        sound += 1
        if confirmation is None or _wants_rematch(confirmation, evidence.incumbent):
            missing.append(contender)
    return missing


def _clear_gain(evidence: Evidence, ratio: float, round_: int) -> list[Contender]:
    """The best unconfirmed contender, if clearly faster than what stands or the untuned; one a round."""
    if any(confirmation.round == round_ for confirmation in evidence.confirmations):
        return []
    confirmed = {confirmation.trace_hash for confirmation in evidence.confirmations}
    ceiling = evidence.untuned_secs
    if evidence.incumbent is not None:
        ceiling = min(ceiling, ratio * evidence.incumbent.latency_secs)
    for contender in _faster_programs(evidence):
        if contender.trace_hash not in confirmed:
            return [contender] if contender.latency_secs < ceiling else []
    return []


def _faster_programs(evidence: Evidence) -> Iterator[Contender]:
    """Contenders that may beat the incumbent, best first, each program once.

    Times of another device class say nothing about the incumbent's: such a contender may always try.
    """
    seen: set[str] = set()
    for contender in evidence.contenders:
        program = contender.program_hash or contender.trace_hash
        if program not in seen and _may_beat(contender, evidence.incumbent):
            seen.add(program)
            yield contender


def _may_beat(contender: Contender, incumbent: Incumbent | None) -> bool:
    if incumbent is None:
        return True
    if contender.trace_hash == incumbent.trace_hash:
        return False
    return contender.device_class != incumbent.device_class or contender.latency_secs < incumbent.latency_secs


def _wants_rematch(confirmation: Confirmation, incumbent: Incumbent | None) -> bool:
    """It was cancelled, or beat a record that no longer stands and may beat today's as well."""
    if confirmation.published:
        return False
    if not _sound(confirmation):
        return True
    if incumbent is None or confirmation.incumbent_record_id == incumbent.record_id:
        return False
    return _latency(confirmation) < incumbent.latency_secs


def _sound(confirmation: Confirmation) -> bool:
    return (
        confirmation.state is TrialState.DONE
        and confirmation.outcome is Outcome.OK
        and confirmation.latency_secs is not None
    )


def _unsound(confirmation: Confirmation) -> bool:
    """It was measured and came to nothing: wrong output, a crash, or the farm gave up."""
    return confirmation.state in (TrialState.DONE, TrialState.FAILED) and not _sound(confirmation)


def _ratio_to_incumbent(confirmation: Confirmation) -> float:
    """Its time over the incumbent's between which it was measured; its seconds where there was none."""
    its_secs = confirmation.incumbent_latency_secs
    return _latency(confirmation) / its_secs if its_secs else _latency(confirmation)


def _latency(confirmation: Confirmation) -> float:
    return math.inf if confirmation.latency_secs is None else confirmation.latency_secs
