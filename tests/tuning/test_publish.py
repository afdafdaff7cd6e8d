"""Only a second measurement publishes, and only what beat the incumbent, interleaved."""

from typing import Any

import pytest

from db.publishing import Confirmation, Contender, Incumbent
from db.states import Outcome, TrialState
from services.tuning.publish import Decision, Evidence, decide
from services.tuning.settings import TunerSettings

SETTINGS = TunerSettings(database_url="sqlite://", broker_url="memory://", confirm_count=3)
OLD = Incumbent(record_id=5, trace_hash="old", latency_secs=0.010, device_class="cpu")


def contender(name: str, ms: float, **values: Any) -> Contender:
    fields = {"trial_id": 1, "task_id": 1, "program_hash": name, "device_class": "cpu"}
    return Contender(trace_hash=name, latency_secs=ms / 1e3, **fields | values)


def confirmation(
    name: str, ms: float | None, *, against_ms: float | None = None, **values: Any
) -> Confirmation:
    fields: dict[str, Any] = {
        "trial_id": hash(name) % 1000,
        "state": TrialState.DONE,
        "round": 0,
        "outcome": Outcome.OK,
        "incumbent_record_id": 5 if against_ms is not None else None,
        "published": False,
    }
    return Confirmation(
        trace_hash=name,
        latency_secs=None if ms is None else ms / 1e3,
        incumbent_latency_secs=None if against_ms is None else against_ms / 1e3,
        **fields | values,
    )


def decided(
    *contenders: Contender,
    confirmations: list[Confirmation] | None = None,
    incumbent: Incumbent | None = None,
    ending: bool = True,
    round_: int = 1,
) -> Decision:
    evidence = Evidence(incumbent=incumbent, contenders=contenders, confirmations=confirmations or [])
    return decide(evidence, SETTINGS, ending=ending, round_=round_)


def names(decision: Decision) -> list[str]:
    return [chosen.trace_hash for chosen in decision.confirm]


FOUR = (contender("a", 1.0), contender("b", 1.1), contender("c", 1.2), contender("d", 1.3))


def test_at_the_end_the_best_three_are_confirmed() -> None:
    assert names(decided(*FOUR)) == ["a", "b", "c"]


def test_the_same_program_is_confirmed_once() -> None:
    twin = contender("b", 1.1, program_hash="a")
    assert names(decided(FOUR[0], twin, *FOUR[2:])) == ["a", "c", "d"]


def test_only_what_looks_faster_than_the_incumbent_is_confirmed() -> None:
    assert names(decided(contender("a", 9.0), contender("b", 11.0), incumbent=OLD)) == ["a"]


def test_times_of_another_device_class_are_not_compared() -> None:
    assert names(decided(contender("b", 11.0, device_class="other"), incumbent=OLD)) == ["b"]


def test_the_incumbent_itself_is_no_contender() -> None:
    assert decided(contender("old", 9.0), incumbent=OLD).settled


def test_the_fastest_confirmation_is_published() -> None:
    decision = decided(*FOUR, confirmations=[confirmation("a", 1.2), confirmation("b", 1.0)])
    assert decision.publish is not None
    assert decision.publish.trace_hash == "b"


def test_of_two_that_beat_the_incumbent_the_one_that_beat_it_by_more_is_published() -> None:
    in_a_slow_moment = confirmation("a", 12.0, against_ms=20.0)
    in_a_fast_moment = confirmation("b", 8.0, against_ms=9.0)
    decision = decided(
        *(contender("a", 8.0), contender("b", 9.0)),
        confirmations=[in_a_slow_moment, in_a_fast_moment],
        incumbent=OLD,
    )
    assert decision.publish is in_a_slow_moment


def test_a_confirmation_that_lost_against_the_incumbent_is_never_published() -> None:
    assert decided(
        contender("a", 9.0), confirmations=[confirmation("a", 9.0, against_ms=8.9)], incumbent=OLD
    ).settled


def test_a_confirmation_that_won_interleaved_is_published_though_slower_than_the_old_number() -> None:
    decision = decided(
        contender("a", 9.0), confirmations=[confirmation("a", 10.5, against_ms=11.0)], incumbent=OLD
    )
    assert decision.publish is not None


@pytest.mark.parametrize("outcome", [Outcome.WRONG_OUTPUT, Outcome.CUT_OFF, Outcome.RUN_ERROR])
def test_an_unsound_confirmation_makes_room_for_the_next_best(outcome: Outcome) -> None:
    bad = confirmation("a", None, outcome=outcome)
    decision = decided(*FOUR, confirmations=[bad])
    assert decision.publish is None
    assert names(decision) == ["b", "c", "d"]


def test_a_search_full_of_unsound_programs_comes_to_an_end() -> None:
    many = [contender(str(n), n + 1.0) for n in range(30)]
    bad = [confirmation(str(n), None, outcome=Outcome.WRONG_OUTPUT) for n in range(10)]
    assert decided(*many, confirmations=bad).settled


def test_while_confirmations_are_under_way_nothing_else_is_asked() -> None:
    under_way = confirmation("a", None, outcome=None, state=TrialState.DISPATCHED)
    assert decided(*FOUR, confirmations=[under_way]).waiting


def test_a_confirmation_against_a_former_record_is_repeated_if_it_may_beat_the_new_one() -> None:
    stale = confirmation("a", 9.0, against_ms=12.0, incumbent_record_id=4)
    assert names(decided(contender("a", 8.0), confirmations=[stale], incumbent=OLD)) == ["a"]
    slower = confirmation("a", 11.0, against_ms=12.0, incumbent_record_id=4)
    assert decided(contender("a", 8.0), confirmations=[slower], incumbent=OLD).settled


def test_a_confirmation_publishes_once_only() -> None:
    assert decided(
        contender("a", 8.0), confirmations=[confirmation("a", 9.0, published=True)], incumbent=OLD
    ).settled


def test_a_cancelled_confirmation_is_asked_for_again() -> None:
    gone = confirmation("a", None, outcome=None, state=TrialState.CANCELLED)
    assert names(decided(FOUR[0], confirmations=[gone])) == ["a"]


def test_during_a_job_only_a_clear_gain_is_confirmed_and_once_a_round() -> None:
    early = {"ending": False, "incumbent": OLD}
    assert names(decided(contender("a", 9.4), contender("b", 9.3), **early)) == ["a"]
    assert decided(contender("a", 9.6), **early).settled
    lost = confirmation("a", 10.2, against_ms=10.0, round=1)
    assert decided(contender("a", 9.0), contender("b", 9.1), confirmations=[lost], **early).settled
    later = decided(contender("a", 9.0), contender("b", 9.1), confirmations=[lost], round_=2, **early)
    assert names(later) == ["b"]


UNTUNED = contender("[]", 2.0, baseline=True)


def test_the_untuned_module_is_confirmed_where_no_candidate_beats_it() -> None:
    slower = contender("a", 31.0)
    assert names(decided(UNTUNED, slower)) == ["[]", "a"]
    won = decided(UNTUNED, slower, confirmations=[confirmation("[]", 2.0), confirmation("a", 31.0)])
    assert won.publish is not None
    assert won.publish.trace_hash == "[]"


def test_the_untuned_module_alone_makes_no_record() -> None:
    assert decided(UNTUNED).settled


def test_nothing_slower_than_the_untuned_module_is_published_early() -> None:
    assert decided(UNTUNED, contender("a", 31.0), ending=False).settled
    assert names(decided(contender("a", 1.0), UNTUNED, ending=False)) == ["a"]
