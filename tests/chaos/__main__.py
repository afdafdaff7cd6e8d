"""`python -m tests.chaos`: every fault that a farm must survive, really injected, each with its invariants.

PostgreSQL, Valkey, API, tuner and worker are real processes. It prints a table, writes it as JSON, and ends
with 1 where an invariant did not hold. `--docs` puts the table into docs/faults.md.
"""

import argparse
import ctypes
import itertools
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil

from tests.chaos import table
from tests.chaos.broker_faults import BROKER_FAULTS
from tests.chaos.candidate_faults import CANDIDATE_FAULTS
from tests.chaos.database_faults import DATABASE_FAULTS
from tests.chaos.farm import Farm, Setup, keep_logs, running
from tests.chaos.fault import Fault, Row, run
from tests.chaos.tuner_faults import TUNER_FAULTS
from tests.chaos.worker_faults import WORKER_FAULTS

_PR_SET_CHILD_SUBREAPER = 36
_ORPHAN_SECS = 10.0
_DOCS = Path(__file__).parents[2] / "docs" / "faults.md"
_JSON = Path(".bench") / "chaos.json"

FAULTS = (*WORKER_FAULTS, *CANDIDATE_FAULTS, *BROKER_FAULTS, *DATABASE_FAULTS, *TUNER_FAULTS)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--only", default="", help="faults whose name contains this")
    parser.add_argument("--json", type=Path, default=_JSON, help="where the table is written (%(default)s)")
    parser.add_argument("--keep", action="store_true", help="keep the last run's other rows")
    parser.add_argument("--docs", action="store_true", help=f"write the table into {_DOCS.name} too")
    arguments = parser.parse_args()
    # Whoever loses its parent in here becomes our child, so that no orphan can hide.
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    # TVM binds the thread that starts its pool to one core, and all that is started here would inherit that.
    os.environ["TVM_BIND_THREADS"] = "0"
    chosen = [fault for fault in FAULTS if arguments.only in fault.name]
    done = {row.fault: row for row in (table.read_json(arguments.json) if arguments.keep else [])}
    for row in _run_all(chosen):
        done[row.fault] = row
        print(table.markdown([row]).splitlines()[-1], flush=True)
        table.write_json(arguments.json, [done[fault.name] for fault in FAULTS if fault.name in done])
    rows = [done[fault.name] for fault in FAULTS if fault.name in done]
    print("\n" + table.markdown(rows))
    if arguments.docs:
        table.write_docs(_DOCS, rows)
    return int(any(row.wrong for row in rows))


def _run_all(faults: Sequence[Fault]) -> Iterator[Row]:
    """Faults of equal setups that follow each other share a farm, as long as all goes well."""
    for setup, group in itertools.groupby(faults, key=lambda fault: fault.setup):
        waiting = list(group)
        while waiting:
            reason = waiting[0].unable()
            if reason is not None:
                yield Row(fault=waiting.pop(0).name, not_run=reason)
                continue
            yield from _on_one_farm(setup, waiting)


def _on_one_farm(setup: Setup, waiting: list[Fault]) -> Iterator[Row]:
    """Takes faults off the list until one goes wrong."""
    fault = waiting[0]
    try:
        with running(setup) as farm:
            _warm_up(farm)
            while waiting and waiting[0].unable() is None:
                fault = waiting.pop(0)
                row = _add_orphans(run(fault, farm), farm)
                if row.wrong:
                    keep_logs(farm.home)
                yield row
                if fault.setup.small_disk:
                    break
    except (AssertionError, OSError, psutil.Error) as error:
        if fault in waiting:
            waiting.remove(fault)
        yield Row(fault=fault.name, wrong=[f"{type(error).__name__}: {error}"[:500]])


def _warm_up(farm: Farm) -> None:
    """A first job, after which the worker's memory is what it is."""
    farm.service.wait_job(farm.submit(trials=8)["id"])
    farm.worker_bytes = farm.resident_bytes()


def _add_orphans(row: Row, farm: Farm) -> Row:
    left = _orphans(farm)
    wrong = [*row.wrong, *([f"processes are left: {left}"] if left else [])]
    return Row(**{name: getattr(row, name) for name in row.__slots__} | {"wrong": wrong})


def _orphans(farm: Farm) -> list[str]:
    """Processes that a fault left: below an idle worker, or without the parent that had started them."""
    deadline = time.monotonic() + _ORPHAN_SECS
    while True:
        left = [process for process in _strangers(farm) if not _ended(process)]
        if not left or time.monotonic() > deadline:
            return [f"{process.pid} {process.name()}" for process in left]
        time.sleep(0.2)


def _strangers(farm: Farm) -> list[psutil.Process]:
    """All that is neither a server, nor a role, nor a fork server of a worker."""
    roles = {name: farm.roles.tree(name) for name in farm.roles.names()}
    known = {farm.postgres.pid, farm.valkey.pid, *(tree[0].pid for tree in roles.values())}
    forked = [
        process
        for name, tree in roles.items()
        for process in tree[1:]
        if name.startswith("worker") and process.ppid() not in known
    ]
    return [child for child in psutil.Process().children() if child.pid not in known] + forked


def _ended(process: psutil.Process) -> bool:
    """Reaps what ended after it had lost its parent."""
    try:
        if process.status() != psutil.STATUS_ZOMBIE:
            return False
        if process.ppid() == os.getpid():
            os.waitpid(process.pid, os.WNOHANG)
    except psutil.NoSuchProcess:
        pass
    return True


if __name__ == "__main__":
    sys.exit(main())
