"""Each query that grows with the farm is served by an index: PostgreSQL's plans on a generated database."""

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Engine, select, text
from sqlalchemy.orm import Session

import db.caller_tables
import db.farm_tables  # noqa: F401 - completes the metadata
from bench.generated_rows import Size, fill
from bench.page_queries import PAGE_QUERIES
from bench.queries import QUERIES, Query, Sample, explain, large_tables, read_whole, sample
from db import fleet, targets
from db.session import connect, transaction
from db.tables import Row, TargetRow, TrialRow
from tests.servers import Postgres, short_dir

#: Ten that live, and 20,000 that left within two years.
_WORKERS = """
    INSERT INTO workers (id, name, host, device, device_class, target_id, role, state, desired_state, cores,
                         memory_bytes, tvm_version, facts, holding, stage_secs, started_at, heartbeat_at)
    SELECT 'worker-' || n, 'pod-' || n, 'pod-' || n, 'cpu', 'generated 2c', :target, 'both',
           CASE WHEN n < 10 THEN 'running' ELSE 'left' END, 'running', 2, 1, '0.27',
           jsonb_build_object('model', repeat('x', 500)), '[]', '{}', now(),
           now() - CASE WHEN n < 10 THEN interval '1 second' ELSE n * interval '53 minutes' END
    FROM generate_series(0, 20000) AS n
"""


@pytest.fixture(scope="module")
def generated() -> Iterator[tuple[Engine, Sample]]:
    """Large enough for the planner to choose indexes by itself; a server of its own, which is thrown away."""
    with short_dir() as home:
        postgres = (
            Postgres(home, "jit=off", "full_page_writes=off", "synchronous_commit=off").create().start()
        )
        engine = connect(postgres.url())
        try:
            Row.metadata.create_all(engine)
            fill(engine, Size(trials=36_000, trials_per_search=2, large=6_000))
            with Session(engine) as session:
                about = sample(session)
            yield engine, about
        finally:
            engine.dispose()
            postgres.end()


@pytest.mark.parametrize(
    "query",
    [query for query in (*QUERIES, *PAGE_QUERIES) if not query.counts_all],
    ids=lambda query: query.name,
)
def test_no_large_table_is_read_from_end_to_end_for_the(
    generated: tuple[Engine, Sample], query: Query
) -> None:
    engine, about = generated
    plans = explain(engine, query, about)
    assert plans, "the query sent nothing"
    whole = {name for plan in plans for name in read_whole(plan)}
    assert not whole & large_tables(engine), plans


def test_the_tables_are_large_enough_to_tell(generated: tuple[Engine, Sample]) -> None:
    assert large_tables(generated[0]) >= {"trials", "searches", "tasks", "records", "workloads"}


def test_a_tick_reads_no_worker_that_left_long_ago(generated: tuple[Engine, Sample]) -> None:
    """Each process that joins makes a row: in a cluster each start of each pod."""
    engine, about = generated
    with transaction(engine) as session:
        (target_id,) = session.execute(select(TargetRow.id).limit(1)).one()
        session.execute(text(_WORKERS), {"target": target_id})
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("VACUUM ANALYZE workers"))
    assert "workers" in large_tables(engine)
    for name, ask in (
        ("the fleet of a tick", lambda session, _: fleet.read_fleet(session, dead_after_secs=10)),
        ("workers alive", lambda session, _: targets.workers_alive(session, dead_after_secs=10)),
    ):
        (plan,) = explain(engine, Query(name=name, ask=ask), about)
        assert not list(read_whole(plan)), plan


def test_a_missing_index_is_noticed(generated: tuple[Engine, Sample]) -> None:
    engine, about = generated

    def by_device_class(session: Session, _about: Sample) -> Any:
        return session.scalars(select(TrialRow.id).where(TrialRow.device_class == "none")).all()

    (plan,) = explain(engine, Query(name="unserved", ask=by_device_class), about)
    assert list(read_whole(plan)) == ["trials"]
