"""Migrations: the migrated schema is the metadata's, on both engines; upgrading twice changes nothing."""

import subprocess
import sys

from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import inspect, text

import db.caller_tables
import db.farm_tables  # noqa: F401 - completes the metadata
from db.migrate import current_revision, head_revision, is_behind, upgrade
from db.session import connect
from db.tables import Row


def test_the_migrated_schema_equals_the_metadata(empty_database_url):
    upgrade(empty_database_url)
    engine = connect(empty_database_url)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, Row.metadata) == []
        migrated = {table: _shape(connection, table) for table in Row.metadata.tables}
    engine.dispose()
    assert migrated == {name: _declared(table) for name, table in Row.metadata.tables.items()}


def test_an_empty_database_has_no_revision_and_a_migrated_one_the_newest(empty_database_url):
    engine = connect(empty_database_url)
    assert current_revision(engine) is None
    upgrade(empty_database_url)
    assert current_revision(engine) == head_revision()
    upgrade(empty_database_url)
    assert current_revision(engine) == head_revision()
    engine.dispose()


def test_a_release_that_is_rolled_back_finds_the_newer_ones_database_as_it_is(empty_database_url):
    """Its migration runs before it, as with each release; were that to fail nothing would start."""
    assert upgrade(empty_database_url)
    engine = connect(empty_database_url)
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    assert not upgrade(empty_database_url)
    assert current_revision(engine) == "9999"
    assert not is_behind(engine)
    engine.dispose()


def test_upgrades_at_once_take_turns(empty_database_url):
    command = [sys.executable, "-c", "import sys; from db.migrate import upgrade; upgrade(sys.argv[1])"]
    processes = [subprocess.Popen([*command, empty_database_url]) for _ in range(3)]
    assert [process.wait(60) for process in processes] == [0, 0, 0]
    engine = connect(empty_database_url)
    assert current_revision(engine) == head_revision()
    engine.dispose()


def _shape(connection, table) -> tuple:
    inspector = inspect(connection)
    columns = {column["name"]: column["nullable"] for column in inspector.get_columns(table)}
    indexes = {(index["name"], tuple(index["column_names"])) for index in inspector.get_indexes(table)}
    unique = {tuple(constraint["column_names"]) for constraint in inspector.get_unique_constraints(table)}
    foreign = {tuple(key["constrained_columns"]) for key in inspector.get_foreign_keys(table)}
    indexes = {entry for entry in indexes if not entry[0].startswith("uq_")}
    return columns, indexes, unique, foreign


def _declared(table) -> tuple:
    columns = {column.name: column.nullable for column in table.columns}
    indexes = {(index.name, tuple(column.name for column in index.columns)) for index in table.indexes}
    unique = {
        tuple(column.name for column in constraint.columns)
        for constraint in table.constraints
        if type(constraint).__name__ == "UniqueConstraint"
    }
    foreign = {(key.parent.name,) for key in table.foreign_keys}
    return columns, indexes, unique, foreign
