"""The backup and restore commands of docs/operations.md, run as they stand there."""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from sqlalchemy import make_url, text

from db import migrate
from db.session import connect
from tests.servers import postgres_program
from tests.upgrade.old_rows import ALL_TRIALS, JOB, OLDEST, filled_at

DOCS = Path(__file__).parents[2] / "docs" / "operations.md"
PG_DUMP = 'pg_dump --format=custom --file=farm.dump "$URL"'
PG_RESTORE = 'pg_restore --clean --if-exists --dbname="$URL" farm.dump'
SQLITE = (
    "python3 -c 'import sqlite3, sys; a, b = map(sqlite3.connect, sys.argv[1:]); a.backup(b)' "
    "tilefarm.db farm.db"
)


def test_the_commands_stand_in_the_docs() -> None:
    told = " ".join(DOCS.read_text().split())
    assert all(command in told for command in (PG_DUMP, PG_RESTORE, SQLITE))


def test_postgresql_is_dumped_while_it_runs_and_restored(postgres_url: str, tmp_path: Path) -> None:
    admin = connect(postgres_url)
    with admin.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("CREATE DATABASE backed_up"))
    admin.dispose()
    url = make_url(postgres_url).set(database="backed_up")
    engine = filled_at(url.render_as_string(hide_password=False), OLDEST)
    host = url.query["host"]
    env = {
        **os.environ,
        "URL": f"postgresql://postgres@/backed_up?host={host}",
        "PATH": f"{Path(postgres_program('pg_dump')).parent}:{os.environ['PATH']}",
    }
    subprocess.run(PG_DUMP, shell=True, check=True, cwd=tmp_path, env=env)
    with engine.begin() as connection:
        connection.execute(text("DELETE FROM trials"))
        connection.execute(text("UPDATE jobs SET name = 'after the backup'"))
    engine.dispose()
    subprocess.run(PG_RESTORE, shell=True, check=True, cwd=tmp_path, env=env)
    assert_is_whole(url.render_as_string(hide_password=False))


def test_sqlite_is_copied_while_it_is_written(tmp_path: Path) -> None:
    engine = filled_at(f"sqlite:///{tmp_path / 'tilefarm.db'}", OLDEST)
    words = [sys.executable if word == "python3" else word for word in shlex.split(SQLITE)]
    with engine.connect() as writing:
        writing.execute(text("UPDATE jobs SET name = 'not committed'"))
        subprocess.run(words, check=True, cwd=tmp_path)
        writing.rollback()
    engine.dispose()
    shutil.copy(tmp_path / "farm.db", tmp_path / "restored.db")
    assert_is_whole(f"sqlite:///{tmp_path / 'restored.db'}")


def assert_is_whole(url: str) -> None:
    """All rows of the backup, and it takes today's schema."""
    migrate.upgrade(url)
    engine = connect(url)
    with engine.connect() as connection:
        assert connection.execute(text("SELECT count(*) FROM trials")).scalar_one() == ALL_TRIALS
        assert (
            connection.execute(text("SELECT name FROM jobs WHERE id = :id"), {"id": JOB}).scalar_one()
            == "old"
        )
    engine.dispose()
