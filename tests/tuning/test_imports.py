"""Imported records are measured again like any candidate, and only what the farm confirmed is published."""

import hashlib
import json
import zlib
from collections.abc import Sequence

import pytest
from sqlalchemy import Engine, select

from db import imports
from db.imports import Verification, verifications
from db.records import NewImports, quarantine
from db.session import reading, transaction
from db.states import JobState, Outcome, Purpose, RecordState
from db.tables import JobRow, RecordRow, SearchRow, TrialRow
from services.tuning.plan import EMPTY_TRACE
from tests.tuning.farm import WORKER, Farm, ok, outcome
from tests.tuning.rows import TVM_VERSION, add_job, add_search, add_target, add_worker, read
from workers.messages import TrialOrder, TrialOutcome


@pytest.fixture
def search_id(engine: Engine) -> int:
    """A search of imports; what it imports is added by `bring`."""
    target_id = add_target(engine)
    add_worker(engine, target_id, worker_id=WORKER)
    return add_search(engine, target_id, strategy=imports.IMPORTED)


def bring(engine: Engine, search_id: int, numbers: Sequence[int]) -> list[int]:
    """Quarantined records, each with the trace of a program of the scripted farm, all claiming to be best."""
    return bring_traces(engine, search_id, [json.dumps([[], [number]]) for number in numbers])


def bring_traces(engine: Engine, search_id: int, traces: Sequence[str]) -> list[int]:
    with transaction(engine) as session:
        search = session.get_one(SearchRow, search_id)
        new = NewImports(
            workload_id=search.workload_id,
            target_id=search.target_id,
            tvm_version=TVM_VERSION,
            traces=[(trace, [1e-9]) for trace in traces],
            origin={},
        )
        ids = quarantine(session, new)
        found = [record_id for record_id in ids if record_id is not None]
        imports.mark_asked(session, found, search_id=search_id)
    return found


def run(engine: Engine, answer=ok) -> None:
    with Farm(engine) as farm:
        farm.run_until(lambda: JobState(read(engine, JobRow.state)[0]).ended, answer=answer)
        assert farm.children == [], "a search of imports needs no search child"


def progress(engine: Engine, ids: list[int]) -> list[imports.Progress]:
    with reading(engine) as session:
        found = verifications(session, ids)
    return [found[record_id] for record_id in ids]


def test_the_fastest_import_is_confirmed_and_published_as_the_farms_own_record(
    engine: Engine, search_id: int
) -> None:
    ids = bring(engine, search_id, [7, 3])
    assert [each.state for each in progress(engine, ids)] == [Verification.MEASURING] * 2
    add_job(engine, [search_id], max_trials=2)
    run(engine)
    assert read(engine, JobRow.state) == [JobState.SUCCEEDED]
    (published,) = read(engine, RecordRow.id, RecordRow.state == RecordState.PUBLISHED)
    with reading(engine) as session:
        record = session.get_one(RecordRow, published)
        trace = json.loads(zlib.decompress(record.trace_z))
        purposes = {
            session.get_one(TrialRow, trial).purpose for trial in (record.trial_id, record.confirm_trial_id)
        }
    assert (trace, purposes) == ([[], [3]], {Purpose.SEARCH, Purpose.CONFIRM})
    # The farm's times, not the claimed nanosecond.
    assert record.latency_secs == pytest.approx(0.002003)
    slower, best = progress(engine, ids)
    assert (best.state, best.published_id, best.latency_secs) == (
        Verification.PUBLISHED,
        published,
        pytest.approx(0.002003),
    )
    assert (slower.state, slower.published_id) == (Verification.MEASURED, None)
    assert read(engine, RecordRow.state, RecordRow.id.in_(ids)) == [RecordState.QUARANTINED] * 2


def test_an_import_of_the_untuned_program_is_published_like_any_other(engine: Engine, search_id: int) -> None:
    """As another farm's record is where nothing beat the untuned module: its trace is the baseline's."""
    ids = bring_traces(engine, search_id, [EMPTY_TRACE])
    add_job(engine, [search_id], max_trials=1)
    run(engine)
    assert read(engine, JobRow.state) == [JobState.SUCCEEDED]
    (trial_id,) = read(engine, RecordRow.trial_id, RecordRow.state == RecordState.PUBLISHED)
    assert read(engine, TrialRow.purpose, TrialRow.id == trial_id) == [Purpose.SEARCH]
    assert [each.state for each in progress(engine, ids)] == [Verification.PUBLISHED]


def wrong(order: TrialOrder) -> TrialOutcome:
    if order.purpose is Purpose.BASELINE:
        return ok(order)
    return outcome(order, Outcome.WRONG_OUTPUT, error="max error 3")


def test_an_import_whose_outputs_are_wrong_is_refuted_and_nothing_is_published(
    engine: Engine, search_id: int
) -> None:
    ids = bring(engine, search_id, [1])
    add_job(engine, [search_id], max_trials=1)
    run(engine, wrong)
    (refuted,) = progress(engine, ids)
    assert (refuted.state, refuted.outcome, refuted.error) == (
        Verification.REFUTED,
        Outcome.WRONG_OUTPUT,
        "max error 3",
    )
    assert read(engine, RecordRow.state) == [RecordState.QUARANTINED]
    assert read(engine, JobRow.state) == [JobState.FAILED]


def test_an_import_that_is_slower_than_what_stands_changes_nothing(engine: Engine, search_id: int) -> None:
    bring(engine, search_id, [50])
    with transaction(engine) as session:
        search = session.get_one(SearchRow, search_id)
        text = json.dumps([[], [0]])
        session.add(
            RecordRow(
                workload_id=search.workload_id,
                target_id=search.target_id,
                tvm_version=search.tvm_version,
                state=RecordState.PUBLISHED,
                trace_z=zlib.compress(text.encode()),
                trace_hash=hashlib.sha256(text.encode()).hexdigest(),
                run_secs=[0.002],
                latency_secs=0.002,
                policy={},
                device_class="cpu",
            )
        )
    add_job(engine, [search_id], max_trials=1)
    run(engine)
    assert read(engine, JobRow.state) == [JobState.SUCCEEDED]
    assert read(engine, RecordRow.latency_secs, RecordRow.state == RecordState.PUBLISHED) == [0.002]


def test_what_is_asked_for_again_is_only_what_nobody_measures(engine: Engine, search_id: int) -> None:
    ids = bring(engine, search_id, range(3))
    with transaction(engine) as session:
        search = session.get_one(SearchRow, search_id)
        session.get_one(RecordRow, ids[2]).verify_search_id = None
        where = {"target_id": search.target_id, "tvm_version": TVM_VERSION, "limit": 9, "shashes": []}

    def waiting(top: int) -> list[int]:
        with reading(engine) as session:
            return [each.record_id for each in imports.unverified(session, top=top, **where)]

    # Two were asked for, by a job that was cancelled before anything came of it.
    assert waiting(9) == ids
    assert waiting(1) == ids[:1]
    add_job(engine, [search_id], max_trials=2)
    assert waiting(9) == ids[2:]
    run(engine)
    assert waiting(9) == ids[2:]
    assert sorted(program_of(text) for text in measured(engine)) == [0, 1]


def measured(engine: Engine) -> list[str]:
    with reading(engine) as session:
        rows = session.scalars(select(TrialRow.trace_z).where(TrialRow.purpose == Purpose.SEARCH))
        return [zlib.decompress(row or b"").decode() for row in rows]


def program_of(text: str) -> int:
    return int(json.loads(text)[1][0])
