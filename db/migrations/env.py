"""Alembic's entry: runs the revisions on the engine that db.migrate hands over, in one transaction.

On PostgreSQL a lock that is not free within seconds fails the upgrade instead of queueing all traffic behind
it, and an advisory lock makes concurrent upgrades take turns. On SQLite BEGIN IMMEDIATE does.
"""

from alembic import context
from sqlalchemy import Connection, Engine, text

from db.tables import Row

_LOCK_TIMEOUT = "10s"
#: Any constant of our own: "tilefarm" as a number.
_ADVISORY_LOCK = 0x74696C6566
_WAIT_FOR_OTHERS = "300s"


def _run(connection: Connection) -> None:
    if connection.dialect.name == "postgresql":
        connection.execute(text(f"SET LOCAL lock_timeout = '{_WAIT_FOR_OTHERS}'"))
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _ADVISORY_LOCK})
        connection.execute(text(f"SET LOCAL lock_timeout = '{_LOCK_TIMEOUT}'"))
    context.configure(
        connection=connection,
        target_metadata=Row.metadata,
        render_as_batch=connection.dialect.name == "sqlite",
        compare_type=True,
        transaction_per_migration=False,
    )
    with context.begin_transaction():
        context.run_migrations()


_engine: Engine = context.config.attributes["engine"]
with _engine.begin() as _connection:
    _run(_connection)
