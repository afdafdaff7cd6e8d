"""Database time, the only clock of leases, deadlines and ages, and the column type that holds it.

`utc_now()` is the time of the statement, not of the transaction: `clock_timestamp()` on PostgreSQL,
`strftime('%f')` on SQLite. It reads no clock of this host.
"""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import DateTime, Dialect, Float, String, literal
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.elements import ColumnElement
from sqlalchemy.sql.expression import FunctionElement
from sqlalchemy.types import TypeDecorator

_SQLITE_FORMAT = "%Y-%m-%d %H:%M:%S.%f"


class UtcDateTime(TypeDecorator[datetime]):
    """An aware UTC datetime; `timestamptz` on PostgreSQL, sortable text with milliseconds on SQLite."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> Any:
        if dialect.name == "sqlite":
            return dialect.type_descriptor(String(32))
        return dialect.type_descriptor(DateTime(timezone=True))

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> Any:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError("a naive datetime was given where an aware UTC one is needed")
        value = value.astimezone(UTC)
        if dialect.name == "sqlite":
            return value.strftime(_SQLITE_FORMAT)[:-3]
        return value

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        if dialect.name == "sqlite":
            return datetime.fromisoformat(value).replace(tzinfo=UTC)
        result: datetime = value.astimezone(UTC)
        return result


class utc_now(FunctionElement[datetime]):  # noqa: N801 - reads as the SQL function it is
    """The database's time now, plus `offset_secs`."""

    type = UtcDateTime()
    inherit_cache = True
    name = "utc_now"

    def __init__(self, *, offset_secs: float = 0.0) -> None:
        # A parameter, so that the statement around it is compiled once.
        super().__init__(*([literal(f"{offset_secs:+.3f} seconds", String())] if offset_secs else []))


@compiles(utc_now, "postgresql")
def _postgresql(element: utc_now, compiler: Any, **kw: Any) -> str:
    if not len(element.clauses):
        return "clock_timestamp()"
    return f"(clock_timestamp() + CAST({compiler.process(element.clauses, **kw)} AS interval))"


@compiles(utc_now, "sqlite")
def _sqlite(element: utc_now, compiler: Any, **kw: Any) -> str:
    offset = f", {compiler.process(element.clauses, **kw)}" if len(element.clauses) else ""
    return f"strftime('%Y-%m-%d %H:%M:%f', 'now'{offset})"


class secs_since(FunctionElement[float]):  # noqa: N801 - reads as the SQL function it is
    """Seconds from a time column to the database's time now."""

    type = Float()
    inherit_cache = True
    name = "secs_since"

    def __init__(self, column: ColumnElement[Any] | Any) -> None:
        super().__init__(column)


@compiles(secs_since, "postgresql")
def _secs_postgresql(element: secs_since, compiler: Any, **kw: Any) -> str:
    return f"CAST(extract(epoch FROM clock_timestamp() - {compiler.process(element.clauses, **kw)}) AS float)"


@compiles(secs_since, "sqlite")
def _secs_sqlite(element: secs_since, compiler: Any, **kw: Any) -> str:
    column = compiler.process(element.clauses, **kw)
    return f"((julianday('now') - julianday({column})) * 86400.0)"


__all__ = ["UtcDateTime", "secs_since", "utc_now"]
