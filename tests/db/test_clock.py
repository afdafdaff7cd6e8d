"""Database time is one clock on both engines."""

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import Engine, insert, select, update

from db.caller_tables import TokenRow
from db.clock import UtcDateTime, secs_since, utc_now
from db.session import reading, transaction


def _insert_token(engine: Engine, *, expires_at: object) -> None:
    with transaction(engine) as session:
        session.execute(
            insert(TokenRow).values(name="t", token_sha256="0" * 64, scopes=[], expires_at=expires_at)
        )


def _rename_and_fail(engine: Engine) -> None:
    with transaction(engine) as session:
        session.execute(update(TokenRow).values(name="changed"))
        raise RuntimeError


def test_now_comes_back_aware_and_close_to_this_hosts_clock(engine: Engine) -> None:
    with reading(engine) as session:
        now = session.scalar(select(utc_now()))
    assert now is not None
    assert now.tzinfo is UTC
    assert abs(datetime.now(UTC) - now) < timedelta(seconds=5)


def test_an_offset_moves_the_time_and_compares_in_sql(engine: Engine) -> None:
    _insert_token(engine, expires_at=utc_now(offset_secs=30.0))
    with reading(engine) as session:
        past = session.scalars(select(TokenRow.name).where(TokenRow.expires_at < utc_now())).all()
        soon = session.scalars(
            select(TokenRow.name).where(TokenRow.expires_at < utc_now(offset_secs=31.0))
        ).all()
    assert (past, soon) == ([], ["t"])


def test_milliseconds_survive_a_round_trip(engine: Engine) -> None:
    moment = datetime(2026, 1, 2, 3, 4, 5, 67000, tzinfo=UTC)
    _insert_token(engine, expires_at=moment)
    with reading(engine) as session:
        assert session.scalar(select(TokenRow.expires_at)) == moment


def test_seconds_since_a_column_are_counted_by_the_database(engine: Engine) -> None:
    _insert_token(engine, expires_at=utc_now(offset_secs=-12.5))
    with reading(engine) as session:
        age_secs = session.scalar(select(secs_since(TokenRow.expires_at)))
    assert age_secs == pytest.approx(12.5, abs=2.0)


def test_a_naive_time_is_refused() -> None:
    with pytest.raises(ValueError, match="naive"):
        UtcDateTime().process_bind_param(datetime(2026, 1, 1), None)  # noqa: DTZ001 - that is the point


def test_a_transaction_that_raises_leaves_nothing(engine: Engine) -> None:
    _insert_token(engine, expires_at=None)
    with pytest.raises(RuntimeError):
        _rename_and_fail(engine)
    with reading(engine) as session:
        assert session.scalar(select(TokenRow.name)) == "t"
