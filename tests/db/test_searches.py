"""A search has one owner at a time, and a former owner can write nothing."""

from sqlalchemy import Engine

from db import searches
from db.clock import utc_now
from db.session import transaction
from db.states import SearchState
from db.tables import SearchRow
from tests.tuning.rows import add_job, add_search, add_target, claim, read


def _search(engine: Engine) -> int:
    return add_search(engine, add_target(engine))


def _expire(engine: Engine) -> None:
    with transaction(engine) as session:
        session.query(SearchRow).update({"lease_expires_at": utc_now(offset_secs=-1.0)})


def test_a_leased_search_cannot_be_claimed(engine: Engine) -> None:
    search_id = _search(engine)
    claim(engine, search_id, owner="a")
    with transaction(engine) as session:
        assert searches.claim_search(session, search_id, owner="b", secs=30.0) is None


def test_an_expired_lease_passes_on_and_its_epoch_fences_the_former_owner(engine: Engine) -> None:
    search_id = _search(engine)
    first = claim(engine, search_id, owner="a")
    _expire(engine)
    second = claim(engine, search_id, owner="b")
    assert second.epoch == first.epoch + 1
    with transaction(engine) as session:
        assert not searches.fence(session, first)
        assert not searches.finish_round(session, first, round_=0, exhausted=False)
        assert searches.count_crash(session, first, error="late") is None
        assert not searches.fail_search(session, first, error="late")
        assert searches.renew_leases(session, [first], secs=30.0) == set()
        searches.release_lease(session, first)
        assert searches.fence(session, second)
    assert read(engine, SearchRow.rounds) == [0]
    assert read(engine, SearchRow.state) == [SearchState.ACTIVE]
    assert read(engine, SearchRow.lease_owner) == ["b"]


def test_an_expired_lease_fences_its_owner_even_when_nobody_took_over(engine: Engine) -> None:
    lease = claim(engine, _search(engine))
    _expire(engine)
    with transaction(engine) as session:
        assert not searches.fence(session, lease)
        assert searches.renew_leases(session, [lease], secs=30.0) == set()


def test_a_released_search_is_free_at_once_under_a_new_epoch(engine: Engine) -> None:
    search_id = _search(engine)
    first = claim(engine, search_id)
    with transaction(engine) as session:
        searches.release_lease(session, first)
    assert claim(engine, search_id).epoch == first.epoch + 1


def test_a_round_is_counted_once_and_clears_the_crashes(engine: Engine) -> None:
    lease = claim(engine, _search(engine))
    with transaction(engine) as session:
        assert searches.count_crash(session, lease, error="SIGSEGV") == 1
        assert searches.count_crash(session, lease, error="SIGSEGV") == 2
        assert searches.finish_round(session, lease, round_=0, exhausted=False)
        assert not searches.finish_round(session, lease, round_=0, exhausted=False)
    assert (read(engine, SearchRow.rounds), read(engine, SearchRow.crashes)) == ([1], [0])


def test_only_searches_of_running_jobs_are_offered_urgent_ones_first(engine: Engine) -> None:
    target_id = add_target(engine)
    ids = [add_search(engine, target_id, name=name) for name in ("calm", "urgent", "queued", "paused")]
    for number, (state, priority) in enumerate(
        [("running", 0), ("running", 9), ("queued", 9), ("paused", 9)]
    ):
        add_job(engine, [ids[number]], job_id=f"job-{number}", state=state, priority=priority)
    with transaction(engine) as session:
        assert searches.free_searches(session, limit=10) == [ids[1], ids[0]]
        assert searches.needed_searches(session, ids) == {ids[0], ids[1]}


def test_stage_seconds_add_up(engine: Engine) -> None:
    search_id = _search(engine)
    with transaction(engine) as session:
        searches.add_stage_secs(session, {search_id: {"build": 0.25}})
        searches.add_stage_secs(session, {search_id: {"build": 0.5, "search": 1.0}})
        searches.add_stage_secs(session, {})
    assert read(engine, SearchRow.stage_secs) == [{"build": 0.75, "search": 1.0}]
