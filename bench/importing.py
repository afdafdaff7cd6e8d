"""`python -m bench import`: stock's files of several sizes sent to the service by `tilefarm import`.

Each size into an empty SQLite database. Seconds should grow with the records, and memory should not: of the
client, of the api process, and of the child that reads what was sent. The files are those of `python -m bench
lookup`.
"""

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import psutil
from sqlalchemy import func, select

from bench.lookup_api import running_api
from bench.machine import this_machine
from bench.report import markdown_table, write_json, write_section
from db.migrate import upgrade
from db.session import connect, reading, transaction
from db.tables import RecordRow
from db.tokens import create_token

_MIB = 1 << 20
_LOOK_SECS = 0.1
_PARTS = ("client", "api", "child")
#: Of the time that an import took, at which its memory is shown.
_PLACES = (0.25, 0.5, 0.75, 1.0)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--records", type=int, nargs="+", default=[1000, 10_000, 100_000])
    parser.add_argument("--dir", type=Path, default=Path(".bench/lookup"), help="of `bench lookup --prepare`")
    parser.add_argument("--dry", action="store_true", help="leave docs/ as it is")


def main(arguments: argparse.Namespace) -> int:
    found = [_imported(arguments.dir / str(records) / "stock", records) for records in arguments.records]
    text = _table(found)
    write_json("import.json", {"machine": asdict(this_machine()), "imports": found})
    if not arguments.dry:
        write_section("import", text)
    print(text)
    return 0


def _imported(directory: Path, records: int) -> dict[str, Any]:
    if not directory.is_dir():
        raise SystemExit(f"{directory} is not there: python -m bench lookup --prepare --records {records}")
    with tempfile.TemporaryDirectory(prefix="tilefarm-bench-") as home:
        url = f"sqlite:///{home}/tilefarm.db"
        upgrade(url)
        engine = connect(url)
        with transaction(engine) as session:
            token = create_token(session, "bench", scopes=["records:import", "records:read"])
        with running_api(url) as api, _watched() as seen:
            began = time.perf_counter()
            _run_client(directory, api, token, Path(home))
            secs = time.perf_counter() - began
        with reading(engine) as session:
            stored = session.scalars(select(func.count()).select_from(RecordRow)).one()
        engine.dispose()
    return {
        "records": records,
        "stored": stored,
        "secs": secs,
        "peak_bytes": {part: max(look[part] for look in seen) for part in _PARTS},
        "curve": [seen[max(int(len(seen) * place) - 2, 0)] for place in _PLACES],
        "file_bytes": sum(path.stat().st_size for path in directory.iterdir()),
    }


def _run_client(directory: Path, api: str, token: str, home: Path) -> None:
    words = [sys.executable, "-m", "tilefarm", "import", str(directory), "--url", api, "--token", token]
    subprocess.run(words, env={**os.environ, "HOME": str(home)}, stdout=subprocess.DEVNULL, check=True)


@contextlib.contextmanager
def _watched() -> Iterator[list[dict[str, int]]]:
    """Resident bytes of each part, looked at again and again until the end."""
    seen: list[dict[str, int]] = []
    over = threading.Event()

    def look() -> None:
        api = _api_process()
        while not over.wait(_LOOK_SECS):
            seen.append(_resident_bytes(api))

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join()


def _resident_bytes(api: psutil.Process) -> dict[str, int]:
    """Of children only what is their own: the rest is the fork server's, which all share."""
    found = dict.fromkeys(_PARTS, 0)
    found["api"] = api.memory_info().rss
    for process in psutil.Process().children():
        with contextlib.suppress(psutil.Error):
            if "tilefarm" in process.cmdline():
                found["client"] = process.memory_info().rss
    for process in api.children(recursive=True):
        with contextlib.suppress(psutil.Error):
            found["child"] = max(found["child"], process.memory_full_info().uss)
    return found


def _api_process() -> psutil.Process:
    return next(child for child in psutil.Process().children() if "api" in child.cmdline())


def _table(found: list[dict[str, Any]]) -> str:
    head = [
        "records",
        "files, MiB",
        "stored",
        "seconds",
        "records/s",
        "client, MiB",
        "api, MiB",
        "its child, MiB",
    ]
    rows = [
        [
            f"{each['records']:,}",
            f"{each['file_bytes'] / _MIB:.0f}",
            f"{each['stored']:,}",
            f"{each['secs']:.1f}",
            f"{each['records'] / each['secs']:.0f}",
            *(f"{each['peak_bytes'][part] / _MIB:.0f}" for part in _PARTS),
        ]
        for each in found
    ]
    largest = found[-1]
    told = (
        f"{this_machine()}. Ten records a workload, 25 workloads a request; TVM's start-up included; SQLite. "
        "Memory is the highest that was seen."
    )
    curve = "; ".join(
        f"{place:.0%}: " + " ".join(f"{look[part] / _MIB:.0f}" for part in _PARTS)
        for place, look in zip(_PLACES, largest["curve"], strict=True)
    )
    over_time = f"Of {largest['records']:,}, client, api and child in MiB as the import went on: {curve}."
    return "\n".join([told, "", *markdown_table(head, rows), "", over_time])
