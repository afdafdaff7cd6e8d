"""How many rows a conditional write changed: what compare-and-set is decided by."""

from sqlalchemy import CursorResult, Delete, Update
from sqlalchemy.orm import Session


def changed(session: Session, statement: Update | Delete) -> int:
    """Run an UPDATE or DELETE; the number of rows it matched."""
    result = session.execute(statement.execution_options(synchronize_session=False))
    assert isinstance(result, CursorResult)
    return result.rowcount
