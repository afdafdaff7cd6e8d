"""What is sent first follows from rows: owners' usage and weights, then priority."""

import pytest
from sqlalchemy import Engine, update

from db.session import transaction
from db.shares import add_usage, set_weight
from db.tables import JobRow, TrialRow
from tests.tuning.farm import WORKER, Farm
from tests.tuning.rows import add_job, add_search, add_target, add_worker, read, set_worker


@pytest.mark.parametrize(
    ("weight", "bobs_priority", "first"),
    [(1.0, 0, "bob"), (20.0, 0, "alice"), (20.0, 9, "alice"), (5.0, 0, "bob")],
)
def test_the_owner_who_had_least_for_their_weight_goes_first(
    engine: Engine, weight: float, bobs_priority: int, first: str
) -> None:
    target_id = add_target(engine)
    add_worker(engine, target_id, worker_id=WORKER, desired_state="paused")
    searches = {owner: add_search(engine, target_id, name=owner) for owner in ("alice", "bob")}
    for owner, search_id in searches.items():
        priority = bobs_priority if owner == "bob" else 0
        add_job(engine, [search_id], job_id=f"job-{owner}", max_trials=4, priority=priority)
    with transaction(engine) as session:
        for owner in searches:
            session.execute(update(JobRow).where(JobRow.id == f"job-{owner}").values(owner=owner))
        add_usage(session, {("alice", target_id): 100.0, ("bob", target_id): 10.0})
        set_weight(session, "alice", weight)
    with Farm(engine) as farm:
        farm.run_until(lambda: len(read(engine, TrialRow.id)) == 10)
        set_worker(engine, WORKER, desired_state="running")
        farm.tick()
        assert farm.sent[0].search_id == searches[first]
