"""Times of every query that grows with the number of trials, on a PostgreSQL database of 1,000,000 of them.

It starts PostgreSQL from its wheel, fills it (`--trials`), asks each query as the product does, and says
which index serves it. A large table that is read from end to end is said so, and makes it end with 1.
"""

import argparse
import statistics
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from sqlalchemy import Engine, text
from sqlalchemy.orm import Session

from bench.generated_rows import Size, fill
from bench.machine import this_machine
from bench.page_queries import PAGE_QUERIES
from bench.queries import QUERIES, Query, Sample, explain, indexes, large_tables, read_whole, run, sample
from bench.report import markdown_table, write_json, write_section
from db.migrate import upgrade
from db.session import connect
from tests.servers import Postgres

_ASKED = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    query: str
    #: Median and slowest of the times asked, the first aside.
    median_ms: float
    slowest_ms: float
    indexes: tuple[str, ...]
    read_whole: tuple[str, ...]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--trials", type=int, default=1_000_000)
    parser.add_argument(
        "--dir", type=Path, required=True, help="of the database; kept, and used again if filled"
    )
    parser.add_argument("--fill-only", action="store_true", help="fill the database and end")
    parser.add_argument("--docs", action="store_true", help="write the table into docs/benchmarks.md")


def main(arguments: argparse.Namespace) -> int:
    arguments.dir.mkdir(parents=True, exist_ok=True)
    # Writes are not what is measured here; what a server of that size has for reading is.
    postgres = Postgres(arguments.dir, "shared_buffers=1GB", "jit=off", "max_wal_size=8GB")
    if not postgres.data.exists():
        postgres.create()
    postgres.start()
    try:
        engine = connect(postgres.url())
        _fill_once(engine, postgres.url(), arguments.trials)
        timed = [] if arguments.fill_only else _time_all(engine)
        engine.dispose()
    finally:
        postgres.end()
    if timed:
        _report(timed, arguments)
    return int(any(row.read_whole for row in timed))


def _fill_once(engine: Engine, url: str, trials: int) -> None:
    upgrade(url)
    with engine.connect() as connection:
        if connection.execute(text("SELECT EXISTS (SELECT 1 FROM records)")).scalar_one():
            return
    began = time.monotonic()
    fill(engine, Size(trials=trials))
    print(f"filled in {time.monotonic() - began:.0f} s", flush=True)


def _time_all(engine: Engine) -> list[Timed]:
    with Session(engine) as session:
        about = sample(session)
    large = large_tables(engine)
    return [_time(engine, query, about, large) for query in (*QUERIES, *PAGE_QUERIES)]


def _time(engine: Engine, query: Query, about: Sample, large: frozenset[str]) -> Timed:
    plans = explain(engine, query, about)
    whole = {name for plan in plans for name in read_whole(plan)}
    times_ms = []
    for _ in range(_ASKED):
        began = time.perf_counter()
        run(engine, query, about)
        times_ms.append(1e3 * (time.perf_counter() - began))
    return Timed(
        query=query.name,
        median_ms=statistics.median(times_ms[1:]),
        slowest_ms=max(times_ms[1:]),
        indexes=tuple(sorted({name for plan in plans for name in indexes(plan)})),
        read_whole=() if query.counts_all else tuple(sorted(large & whole)),
    )


def _report(timed: list[Timed], arguments: argparse.Namespace) -> None:
    machine = this_machine()
    write_json("million.json", {"machine": asdict(machine), "queries": [asdict(row) for row in timed]})
    rows = [
        [
            row.query,
            f"{row.median_ms:.1f}",
            f"{row.slowest_ms:.1f}",
            ", ".join(row.indexes) + "".join(f" **reads all of {name}**" for name in row.read_whole),
        ]
        for row in timed
    ]
    head = ["query", "median, ms", "slowest, ms", "indexes"]
    told = f"{machine}. {arguments.trials:,} trials; {_ASKED - 1} askings each, Python included."
    table = "\n".join([told, "", *markdown_table(head, rows)])
    print(table)
    if arguments.docs:
        write_section("million", table)
