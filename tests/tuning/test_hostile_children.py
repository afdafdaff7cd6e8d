"""In a search child a hostile module may do as it likes: nothing that it says is believed."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from sqlalchemy import Engine

from db.states import JobState
from db.tables import TaskRow
from sandbox.errors import ChildDied
from tests.tuning.farm import WORKER, Farm, ScriptedChild
from tests.tuning.jobs import ended, job_state
from tests.tuning.rows import add_job, add_search, add_target, add_worker, read

#: As a search child tells it.
CANDIDATE = {
    "trace": "[[],[0]]",
    "trace_hash": "0" * 64,
    "program_hash": "0" * 16,
    "features": "",
    "predicted_score": None,
}


@pytest.fixture
def search_id(engine: Engine) -> int:
    target_id = add_target(engine)
    add_worker(engine, target_id, worker_id=WORKER)
    return add_search(engine, target_id)


class BabblingChild(ScriptedChild):
    """What it leaves behind fits no column."""

    def recv(self, _timeout_secs: float | None) -> tuple[dict[str, Any], list[bytes]]:
        raise ChildDied(reason="\ud800" * 9000, signal=11, stderr="a\x00b")


class LyingChild(ScriptedChild):
    """Its answers have the right names and nothing else."""

    def __init__(self, **answer: Any) -> None:
        super().__init__()
        self._lie = answer

    def _suggest(self, request: Mapping[str, Any]) -> dict[str, Any]:
        return super()._suggest(request) | self._lie


@pytest.mark.parametrize(
    "child",
    [
        BabblingChild,
        lambda: LyingChild(stage_secs={"search": 10**400}),
        lambda: LyingChild(candidates=[[]]),
        lambda: LyingChild(candidates=[{**CANDIDATE, "trace_hash": {}}]),
        lambda: LyingChild(candidates=[{**CANDIDATE, "predicted_score": {}}]),
        lambda: LyingChild(candidates=[{**CANDIDATE, "features": 5}]),
        lambda: LyingChild(candidates=5),
    ],
    ids=["babble", "time", "no object", "hash", "score", "features", "no list"],
)
def test_whatever_a_search_child_says_or_leaves_behind_harms_its_own_search_alone(
    engine: Engine, search_id: int, child: Callable[[], ScriptedChild]
) -> None:
    add_job(engine, [search_id])
    with Farm(engine, child=child, max_crashes=2) as farm:
        farm.run_until(lambda: ended(engine))
    assert job_state(engine) == JobState.FAILED
    [error] = read(engine, TaskRow.error)
    assert len(error) < 5000
