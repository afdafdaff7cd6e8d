"""`python -m bench lookup`: the compile-time question against stock JSONDatabase with the same content.

Opening and asking at several sizes, each in a process of its own. With `--server N`, the service alone: p50
and p99 of batches of 25 on PostgreSQL with 10,000 and with N workloads. With `--compile`, what a compile pays
when nothing is tuned; with `--parts`, what there is to do for one function; with `--tuned`, a model whose
records are true ones. What was generated is kept in `--dir` and used again.
"""

import argparse
import json
import statistics
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench import lookup_compile, lookup_content, lookup_parts, lookup_server, lookup_tuned
from bench.lookup_api import running_api
from bench.machine import this_machine
from bench.report import markdown_table, write_json, write_section
from db.migrate import upgrade

_REPEATS = 3
_STOCK_TIMEOUT_SECS = 600


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--records", type=int, nargs="+", default=[1000, 10_000, 100_000])
    parser.add_argument("--dir", type=Path, default=Path(".bench/lookup"), help="of what is generated")
    parser.add_argument("--prepare", action="store_true", help="generate what is asked for, and end")
    parser.add_argument("--server", type=int, metavar="WORKLOADS", help="the service alone, on PostgreSQL")
    parser.add_argument("--compile", action="store_true", help="what a compile pays for misses")
    parser.add_argument("--parts", action="store_true", help="hash, equality and loading by module size")
    parser.add_argument("--tuned", action="store_true", help="a tuned model's records, traces and all")
    parser.add_argument("--dry", action="store_true", help="leave docs/ as it is")


def main(arguments: argparse.Namespace) -> int:
    if arguments.server:
        name, text, found = "lookup-server", *lookup_server.measure(arguments.server, arguments.dir)
    elif arguments.parts:
        name, text, found = "lookup-parts", *lookup_parts.measure()
    elif arguments.tuned:
        name, text, found = "lookup-tuned", *lookup_tuned.measure()
    elif arguments.compile:
        name, text, found = "lookup-compile", *lookup_compile.measure()
    else:
        _prepare(arguments.dir, arguments.records)
        if arguments.prepare:
            return 0
        found = {"sizes": [_measure(arguments.dir, count) for count in arguments.records]}
        name, text = "lookup", _table(found["sizes"])
    print(text)
    write_json(f"{name}.json", {"machine": asdict(this_machine()), **found})
    if not arguments.dry:
        write_section(name, text)
    return 0


def _prepare(directory: Path, sizes: list[int]) -> None:
    import tvm

    per = lookup_content.RECORDS_PER_WORKLOAD
    missing = [size for size in sizes if not (directory / str(size) / "token").exists()]
    for size in set(sizes) - set(missing):
        upgrade(f"sqlite:///{directory / str(size) / 'tilefarm.db'}")
    if not missing:
        return
    made = list(lookup_content.workloads(max(missing) // per))
    for size in missing:
        home = directory / str(size)
        lookup_content.write_stock(home / "stock", made[: size // per])
        url = f"sqlite:///{home / 'tilefarm.db'}"
        token = lookup_content.write_rows(url, made[: size // per], tvm_version=tvm.__version__)
        (home / "token").write_text(token)


def _measure(directory: Path, records: int) -> dict[str, Any]:
    home = (directory / str(records)).resolve()
    count = records // lookup_content.RECORDS_PER_WORKLOAD
    token = (home / "token").read_text()
    stock, cold, warm = [], [], []
    with running_api(f"sqlite:///{home / 'tilefarm.db'}") as url:
        for repeat in range(_REPEATS):
            if repeat == 0 or records < max(100_000, 2):
                stock.append(_ask("stock", str(home / "stock"), count))
            with TemporaryDirectory(prefix="tilefarm-bench-") as cache:
                cold.append(_ask("ours", url, token, cache, count))
                warm.append(_ask("ours", url, token, cache, count))
    return {
        "records": records,
        "stock_bytes": sum(path.stat().st_size for path in (home / "stock").iterdir()),
        "stock": stock,
        "cold": cold,
        "warm": warm,
    }


def _ask(kind: str, *words: str | int) -> dict[str, Any]:
    command = [sys.executable, "-m", "bench.lookup_asking", kind, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_STOCK_TIMEOUT_SECS)
    if done.returncode != 0:
        raise RuntimeError(f"{kind}: {done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _table(sizes: list[dict[str, Any]]) -> str:
    rows = [row for size in sizes for row in _rows(size)]
    head = [
        "records", "who", "opened, ms", "first answer, ms", "× stock", "25 tasks, ms", "requests",
        "of it per task over hashing, ms", "the same again, per task, ms", "grown by, MiB",
    ]  # fmt: skip
    told = (
        f"{this_machine()}. Medians of {_REPEATS} processes (stock at 100,000: one), TVM and httpx loaded "
        "before; ten records a workload; short traces. Cold: an empty cache. Warm: a new process, the cache "
        "on disk. "
        f"Hashing itself: {1e3 * _median(sizes[-1]['warm'], 'hashing_secs') / 25:.2f} ms a task."
    )
    return "\n".join([told, "", *markdown_table(head, rows)])


def _rows(size: dict[str, Any]) -> list[list[str]]:
    rows = []
    stock_first = _median(size["stock"], "first_secs")
    for who in ("stock", "cold", "warm"):
        found = size[who]
        first, model = _median(found, "first_secs"), _median(found, "model_secs")
        hashing = _median(found, "hashing_secs") if who != "stock" else 0.0
        again = _median(found, "again_secs") - hashing
        rows.append(
            [
                f"{size['records']:,}" if who == "stock" else "",
                "stock" if who == "stock" else f"tilefarm, {who}",
                f"{1e3 * _median(found, 'open_secs'):.1f}",
                f"{1e3 * first:.1f}",
                "" if who == "stock" else f"**{stock_first / first:.0f}**",
                f"{1e3 * model:.1f}",
                "" if who == "stock" else str(found[0]["requests_model"]),
                f"{1e3 * (model - hashing) / 25:.2f}",
                f"{1e3 * again / 25:.2f}",
                f"{_median(found, 'grown_bytes') / 2**20:.1f}",
            ]
        )
    return rows


def _median(found: list[dict[str, Any]], name: str) -> float:
    return statistics.median(float(each[name]) for each in found)
