"""Each query that grows with the farm is served by an index: PostgreSQL's plans on a generated database."""

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Engine
from sqlalchemy.orm import Session

import db.caller_tables
import db.farm_tables  # noqa: F401 - completes the metadata
from bench.generated_rows import Size, fill
from bench.page_queries import PAGE_QUERIES
from bench.queries import QUERIES, Query, Sample, explain, large_tables, read_whole, sample
from db.session import connect
from db.tables import Row
from tests.servers import Postgres, short_dir


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


def test_a_missing_index_is_noticed(generated: tuple[Engine, Sample]) -> None:
    engine, about = generated

    def by_device_class(session: Session, _about: Sample) -> Any:
        from sqlalchemy import select

        from db.tables import TrialRow

        return session.scalars(select(TrialRow.id).where(TrialRow.device_class == "none")).all()

    (plan,) = explain(engine, Query(name="unserved", ask=by_device_class), about)
    assert list(read_whole(plan)) == ["trials"]
