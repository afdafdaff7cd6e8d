"""Which shots a trial needs, and what they say together."""

from db.states import Outcome, Purpose
from workers.messages import MeasureChunk, MeasurePolicy, TrialOrder
from workers.plan import Planned, Tally, plan
from workers.shot import ShotResult


def order(purpose=Purpose.SEARCH, incumbent=None):
    return TrialOrder(trial_id=1, attempt=2, purpose=purpose, trace="new", incumbent_trace=incumbent)


def planned(*orders, processes=3):
    chunk = MeasureChunk(
        chunk_id="c",
        search_id=1,
        target={},
        module="",
        module_sha256="",
        policy=MeasurePolicy(confirm_processes=processes),
        trials=orders,
    )
    return list(plan(chunk))


def ok(*run_secs):
    return ShotResult(outcome=Outcome.OK, run_secs=run_secs, stage_secs={"build": 1.0})


BAD = ShotResult(outcome=Outcome.WRONG_OUTPUT, error="off by one", stage_secs={"build": 2.0})


def concluded(purpose, candidates, incumbents=()):
    tally = Tally()
    for results, incumbent in ((candidates, False), (incumbents, True)):
        for result in results:
            tally.add(Planned(order=order(purpose), trace="", incumbent=incumbent), result)
    return tally.conclude()


def test_a_search_trial_is_one_shot():
    (shot,) = planned(order())
    assert (shot.trace, shot.first, shot.last, shot.incumbent) == ("new", True, True, False)
    assert tuple(shot.attempt) == (1, 2)


def test_a_confirmation_interleaves_its_sides():
    shots = planned(order(Purpose.CONFIRM, "old"), processes=2)
    assert [shot.trace for shot in shots] == ["new", "old", "new", "old"]
    assert [shot.first for shot in shots] == [True, False, False, False]
    assert [shot.last for shot in shots] == [False, False, False, True]


def test_a_confirmation_without_incumbent_is_fresh_processes_of_one():
    assert [shot.trace for shot in planned(order(Purpose.CONFIRM))] == ["new"] * 3


def test_a_search_keeps_its_repeats():
    result, incumbent = concluded(Purpose.SEARCH, [ok(1.0, 2.0, 4.0)])
    assert (result.run_secs, incumbent) == ((1.0, 2.0, 4.0), None)


def test_a_confirmation_answers_one_median_for_each_process():
    result, incumbent = concluded(Purpose.CONFIRM, [ok(1.0, 2.0, 9.0), ok(3.0)], [ok(5.0, 7.0), ok(8.0)])
    assert (result.run_secs, incumbent) == ((2.0, 3.0), (6.0, 8.0))
    assert result.stage_secs == {"build": 4.0}


def test_one_bad_process_fails_a_confirmation():
    result, _ = concluded(Purpose.CONFIRM, [ok(1.0), BAD])
    assert (result.outcome, result.error) == (Outcome.WRONG_OUTPUT, "off by one")


def test_a_bad_incumbent_leaves_the_candidate_its_numbers():
    result, incumbent = concluded(Purpose.CONFIRM, [ok(1.0)], [BAD])
    assert (result.outcome, result.run_secs, incumbent) == (Outcome.OK, (1.0,), None)
    assert result.error == "incumbent: wrong_output: off by one"
