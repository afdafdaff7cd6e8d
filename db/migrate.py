"""Brings a database to this version's schema: `upgrade(url)`. The revisions stand in db/migrations/versions.

There is no downgrade: a release expands the schema first and contracts it in a later one, so that the
version before keeps working; a backup is the way back.
"""

from functools import cache
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, inspect

from db.session import connect

_SCRIPTS = Path(__file__).parent / "migrations"


def upgrade(url: str) -> bool:
    """Apply every revision that the database at `url` lacks; may run twice, or on several hosts at once.

    False where a newer release has been there: it only expanded what this one needs, and a release that is
    rolled back must start.
    """
    engine = connect(url, pool_size=1)
    try:
        if current_revision(engine) not in {None, head_revision(), *_earlier_revisions()}:
            return False
        config = _config()
        config.attributes["engine"] = engine
        command.upgrade(config, "head")
        return True
    finally:
        engine.dispose()


def head_revision() -> str:
    """The revision that this version's code needs."""
    head = ScriptDirectory.from_config(_config()).get_current_head()
    assert head is not None
    return head


def current_revision(engine: Engine) -> str | None:
    """The revision of a database; None where it was never migrated."""
    with engine.connect() as connection:
        return MigrationContext.configure(connection).get_current_revision()


def is_behind(engine: Engine) -> bool:
    """Whether the database lacks revisions that this version's code needs.

    One of a newer release is not behind: it was only expanded. Raises SQLAlchemyError.
    """
    current = current_revision(engine)
    if current is None:
        return not inspect(engine).has_table("jobs")
    return current in _earlier_revisions()


@cache
def _earlier_revisions() -> frozenset[str]:
    scripts = ScriptDirectory.from_config(_config()).walk_revisions()
    return frozenset(script.revision for script in scripts) - {head_revision()}


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(_SCRIPTS).replace("%", "%%"))
    return config
