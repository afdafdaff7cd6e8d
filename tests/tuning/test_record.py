"""What comes off the results queue is read with distrust, and written once."""

import json
from typing import Any

import pytest
from sqlalchemy import Engine, update

from db.session import transaction
from db.states import Outcome, TrialState
from db.tables import SearchRow, TrialRow
from services.tuning.record import measured, read_result, record
from tests.tuning.rows import add_job, add_search, add_target, add_trials, read
from workers.messages import MessageError, TrialOutcome, TrialStarted

OK = TrialOutcome(
    trial_id=1,
    attempt=1,
    worker_id="w",
    outcome=Outcome.OK,
    run_secs=(0.003, 0.001, 0.002),
    device_class="cpu",
)


def _body(**values: Any) -> str:
    return json.dumps(OK.as_json() | values)


@pytest.mark.parametrize(
    "body",
    [
        b"\xff",
        "[]",
        "{}",
        "[" * 100_000,
        None,
        5,
        _body(kind="other"),
        _body(kind=[]),
        _body(version=99),
        _body(trial_id="1"),
        _body(trial_id=2**63),
        _body(attempt=-1),
        _body(attempt=True),
        _body(outcome="fine"),
        _body(run_secs=["x"]),
        _body(run_secs=[10**400]),
        _body(worker_id=None),
        _body(error=5),
        _body(stage_secs={"build": "long"}),
        _body(stage_secs={"build": float("nan")}),
        _body(stage_secs={"build": 10**400}),
        _body(stage_secs={"a\x00": 1.0}),
        _body(stage_secs={"\ud800": 1.0}),
        _body(extra=1),
    ],
)
def test_what_fits_no_row_is_refused(body: Any) -> None:
    with pytest.raises(MessageError):
        read_result(body)


def test_a_result_survives_the_way_through_json() -> None:
    assert read_result(_body()) == OK
    started = TrialStarted(trial_id=1, attempt=1, worker_id="w")
    assert read_result(json.dumps(started.as_json())) == started


def test_the_latency_is_the_median_of_the_repeats() -> None:
    assert measured(OK).latency_secs == 0.002


@pytest.mark.parametrize("run_secs", [None, [], [float("inf")], [float("nan")], [0.0], [-1.0]])
def test_ok_without_usable_times_is_the_workers_error(run_secs: list[float] | None) -> None:
    row = measured(read_result(_body(run_secs=run_secs)))
    assert (row.outcome, row.run_secs, row.latency_secs) == (Outcome.RUN_ERROR, None, None)


def test_a_cut_off_keeps_its_time_as_a_bound_and_a_failure_keeps_none() -> None:
    assert measured(read_result(_body(outcome="cut_off", run_secs=[0.5]))).latency_secs == 0.5
    assert measured(read_result(_body(outcome="wrong_output"))).latency_secs is None


def test_error_texts_are_made_to_fit_their_column() -> None:
    error = measured(read_result(_body(outcome="run_error", error="a\x00\ud800" * 9000))).error
    assert error is not None
    assert len(error.encode().decode()) == 4000
    assert "\x00" not in error


def test_a_batch_is_one_transaction_and_says_which_jobs_changed(engine: Engine) -> None:
    search_id = add_search(engine, add_target(engine))
    [task_id] = add_job(engine, [search_id], state="running")
    first, second = add_trials(engine, search_id, task_id, 2)
    with transaction(engine) as session:
        session.execute(update(TrialRow).values(state=TrialState.DISPATCHED, attempt=1))
    stages = {"build": 0.5}
    results = [
        read_result(_body(trial_id=first, stage_secs=stages)),
        read_result(_body(trial_id=first, stage_secs=stages, run_secs=[9.0])),
        read_result(_body(trial_id=second, stage_secs=stages, run_secs=[0.001])),
        read_result(_body(trial_id=999, stage_secs=stages)),
    ]
    assert record(engine, results) == {"job-1"}
    assert record(engine, results) == set()
    assert read(engine, TrialRow.latency_secs) == [0.002, 0.001]
    assert read(engine, SearchRow.stage_secs) == [{"build": 1.0}]
    assert read(engine, SearchRow.best_latency_secs) == [0.001]
    assert read(engine, SearchRow.best_trial_id) == [second]
