"""Seconds of each revision of the schema on a PostgreSQL database of many trials, and the locks it takes.

A database of revision 0004 is filled (`--trials`), then upgraded one revision at a time, each in a
transaction of its own; `tilefarm-server db upgrade` brings all in one, so an operator waits for their sum.
Ends with 1 where a table has not the rows that it had.
"""

import argparse
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from sqlalchemy import Connection, Engine, event, text

from bench.generated_rows import Size, fill
from bench.machine import commit, this_machine
from bench.report import markdown_table, write_json, write_section
from db.session import connect
from tests.servers import Postgres
from tests.upgrade.old_rows import revisions, upgrade_to

#: The last one before those that change the trials of a farm which has many.
_FROM = "0004"
_FILLED = ("workloads", "jobs", "searches", "tasks", "trials", "records")
#: What other statements wait for: with ShareLock those that write, with the other all.
_STOPPING = {"ShareLock": "writes", "AccessExclusiveLock": "all"}
_LOCKS = """
    SELECT relname, mode FROM pg_locks JOIN pg_class ON pg_class.oid = relation
    WHERE pid = pg_backend_pid() AND granted AND relname = ANY(:tables) AND mode = ANY(:modes)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    revision: str
    secs: float
    #: By table that had rows: "all" or "writes" of others wait until the end of the upgrade.
    waiting: dict[str, str]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--trials", type=int, default=1_000_000)
    parser.add_argument("--dir", type=Path, required=True, help="of the database; must have none yet")
    parser.add_argument("--docs", action="store_true", help="write the table into docs/benchmarks.md")


def main(arguments: argparse.Namespace) -> int:
    arguments.dir.mkdir(parents=True, exist_ok=True)
    postgres = Postgres(arguments.dir, "shared_buffers=1GB", "jit=off", "max_wal_size=8GB").create().start()
    try:
        engine = connect(postgres.url())
        fill_old(engine, Size(trials=arguments.trials))
        before = _counts(engine)
        steps = upgrade_by_steps(engine)
        after = _counts(engine)
        engine.dispose()
    finally:
        postgres.end()
    _report(steps, before["trials"], arguments)
    if before != after:
        print(f"rows before: {before}; after: {after}")
    return int(before != after)


def fill_old(engine: Engine, size: Size) -> None:
    """Bring an empty database to the revision from which the upgrade starts, and fill it."""
    upgrade_to(engine, _FROM)
    fill(engine, size, improvements=False)


def upgrade_by_steps(engine: Engine) -> list[Step]:
    """Every revision after the first, timed."""
    return [_step(engine, revision) for revision in revisions() if revision > _FROM]


def _step(engine: Engine, revision: str) -> Step:
    waiting: dict[str, str] = {}

    def note_locks(connection: Connection) -> None:
        asked = {"tables": [*_FILLED, "workers"], "modes": list(_STOPPING)}
        # Sorted, so that the stronger lock of a table is read last where it has both.
        for table, mode in sorted(
            connection.execute(text(_LOCKS), asked), key=lambda row: row.mode != "ShareLock"
        ):
            waiting[table] = _STOPPING[mode]

    event.listen(engine, "commit", note_locks)
    began = time.perf_counter()
    try:
        upgrade_to(engine, revision)
    finally:
        event.remove(engine, "commit", note_locks)
    return Step(revision=revision, secs=time.perf_counter() - began, waiting=waiting)


def _counts(engine: Engine) -> dict[str, int]:
    with engine.connect() as connection:
        return {
            table: connection.execute(text(f"SELECT count(*) FROM {table}")).scalar_one() for table in _FILLED
        }


def _report(steps: list[Step], trials: int, arguments: argparse.Namespace) -> None:
    machine = this_machine()
    write_json(
        "upgrade.json",
        {"machine": asdict(machine), "trials": trials, "steps": [asdict(step) for step in steps]},
    )
    rows = [[step.revision, f"{step.secs:.2f}", _said(step.waiting)] for step in steps]
    rows.append(["all", f"{sum(step.secs for step in steps):.2f}", ""])
    told = f"{machine}; commit {commit()}. {trials:,} trials; fsync off."
    table = "\n".join([told, "", *markdown_table(["revision", "seconds", "what waits for its end"], rows)])
    print(table)
    if arguments.docs:
        write_section("upgrade", table)


def _said(waiting: dict[str, str]) -> str:
    return ", ".join(f"{what} of `{table}`" for table, what in sorted(waiting.items())) or "nothing"
