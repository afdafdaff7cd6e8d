"""`python -m bench import`: stock's files of several sizes sent to the service by `tilefarm import`.

Each size into an empty SQLite database. Seconds should grow with the records, and memory should not: the
client's peak, and that of the api process. The files are those of `python -m bench lookup`.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
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
        with running_api(url) as api:
            began = time.perf_counter()
            client_bytes = _run_client(directory, api, token, Path(home))
            secs = time.perf_counter() - began
            api_bytes = _peak_bytes(_api_process())
        with reading(engine) as session:
            stored = session.scalars(select(func.count()).select_from(RecordRow)).one()
        engine.dispose()
    return {
        "records": records,
        "stored": stored,
        "secs": secs,
        "client_peak_bytes": client_bytes,
        "api_peak_bytes": api_bytes,
        "file_bytes": sum(path.stat().st_size for path in directory.iterdir()),
    }


def _run_client(directory: Path, api: str, token: str, home: Path) -> int:
    """Peak resident bytes of `tilefarm import`."""
    words = [sys.executable, "-m", "tilefarm", "import", str(directory), "--url", api, "--token", token]
    process = subprocess.Popen(words, env={**os.environ, "HOME": str(home)}, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise RuntimeError(f"tilefarm import ended with {process.returncode}")
    return usage.ru_maxrss << 10


def _api_process() -> int:
    found = [child.pid for child in psutil.Process().children() if "api" in child.cmdline()]
    return found[0]


def _peak_bytes(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("VmHWM:"))) << 10


def _table(found: list[dict[str, Any]]) -> str:
    head = [
        "records",
        "files, MiB",
        "stored",
        "seconds",
        "records/s",
        "client's peak, MiB",
        "api's peak, MiB",
    ]
    rows = [
        [
            f"{each['records']:,}",
            f"{each['file_bytes'] / _MIB:.0f}",
            f"{each['stored']:,}",
            f"{each['secs']:.1f}",
            f"{each['records'] / each['secs']:.0f}",
            f"{each['client_peak_bytes'] / _MIB:.0f}",
            f"{each['api_peak_bytes'] / _MIB:.0f}",
        ]
        for each in found
    ]
    told = f"{this_machine()}. Ten records a workload, a request each; TVM's start-up included; SQLite."
    return "\n".join([told, "", *markdown_table(head, rows)])
