"""What the fleet holds, however large it is."""

from sqlalchemy import Engine

from db.load import held_trials
from db.session import reading
from tests.tuning.rows import add_job, add_search, add_target, add_trials


def test_more_trials_than_a_statement_takes_are_found_by_name(engine: Engine) -> None:
    """Two thousand workers with a chunk each hold as many; most of these are gone already."""
    search_id = add_search(engine, add_target(engine))
    [task_id] = add_job(engine, [search_id])
    there = add_trials(engine, search_id, task_id, 3)
    with reading(engine) as session:
        held = held_trials(session, {*there, *range(1_000_000, 1_070_000)})
    assert set(held) == set(there)
    assert {each.task_name for each in held.values()} == {"f0"}
