"""INSERT … ON CONFLICT on both engines. It decides nothing: callers name the constraint."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Insert
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from db.tables import Row


def insert_unless_there(
    session: Session, row: type[Row], values: Mapping[str, Any], *, unique: Sequence[str]
) -> bool:
    """Insert one row; False where a row with the same `unique` columns is there already.

    On PostgreSQL it waits for a concurrent transaction that inserts the same.
    """
    statement = _insert(session, row).on_conflict_do_nothing(index_elements=list(unique))
    inserted = session.execute(
        statement.values(**values).returning(*[getattr(row, name) for name in unique])
    ).first()
    return inserted is not None


def insert_or_update(
    session: Session, row: type[Row], values: Mapping[str, Any], *, unique: Sequence[str]
) -> None:
    """Insert one row, or give the row with the same `unique` columns the other values."""
    changed = {name: value for name, value in values.items() if name not in unique}
    statement = _insert(session, row).values(**values)
    session.execute(statement.on_conflict_do_update(index_elements=list(unique), set_=changed))


def insert_or_add(
    session: Session,
    row: type[Row],
    unique: Mapping[str, Any],
    counts: Mapping[str, int],
    *,
    fixed: Mapping[str, Any] | None = None,
    newest: Mapping[str, Any] | None = None,
) -> None:
    """Insert one row, or add the counts to the row with the same `unique` columns.

    A row that is there keeps its `fixed` columns and gets the `newest`.
    """
    values = {**unique, **counts, **(fixed or {}), **(newest or {})}
    added = {name: getattr(row, name) + count for name, count in counts.items()}
    statement = _insert(session, row).values(**values)
    session.execute(
        statement.on_conflict_do_update(index_elements=list(unique), set_={**added, **(newest or {})})
    )


def _insert(session: Session, row: type[Row]) -> Any:
    statements: dict[str, type[Insert]] = {"postgresql": postgresql.Insert, "sqlite": sqlite.Insert}
    return statements[session.get_bind().dialect.name](row)
