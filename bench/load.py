"""The API under load on loopback, by wrk (Debian: apt-get install wrk).

One API process on PostgreSQL with generated rows. For each kind and number of connections: requests a second,
p50 and p99, processor milliseconds a request of API and database, how many were refused, and whether each
refusal said when to come again. At the end: does one client see the times of before, is anything left open?
"""

import argparse
import json
import math
import shutil
import subprocess
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil
import psycopg

from bench.generated_rows import Size, fill, generated_target
from bench.machine import this_machine
from bench.plain_farm import PlainFarm, plain_farm
from bench.processor import processor_secs
from bench.report import markdown_table, write_json, write_section
from db.session import connect
from tests.system.modules import body

_SCRIPT = Path(__file__).parent / "load.lua"
#: The last is the mixed one by clients that do not wait when they are told to.
_KINDS = ("lookups", "dashboards", "submissions", "mixed", "mixed, impatient")
_LOOKUP_WORKLOADS = 25
_QUIET_SECS = 2.0
#: A client is served as usual when so many answers in a row take no longer than so many times the median.
_GOOD, _SLOW_RATIO = 10, 3.0
_GIVEN_UP_SECS = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    kind: str
    connections: int
    #: Answered 2xx, answered 503 or 429, of those with Retry-After, answered otherwise, not answered.
    ok: int
    refused: int
    retry_after: int
    failed: int
    broken: int
    secs: float
    p50_ms: float
    p99_ms: float
    api_cpu_ms: float
    postgres_cpu_ms: float
    #: From its end until a single client is served as before.
    recovered_secs: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Open:
    """What the API holds while nobody asks."""

    files: int
    database_connections: int


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--secs", type=float, default=5.0, help="of each kind and number of connections")
    parser.add_argument("--connections", type=int, nargs="+", default=[1, 8, 64, 256])
    parser.add_argument("--kinds", nargs="+", choices=_KINDS, default=list(_KINDS))
    parser.add_argument("--docs", action="store_true", help="write the table into docs/benchmarks.md")


def main(arguments: argparse.Namespace) -> int:
    if shutil.which("wrk") is None:
        print("wrk is not installed; Debian: apt-get install wrk")
        return 2
    with plain_farm(roles=("api",)) as farm:
        job = _prepare(farm)
        wrk = _Wrk(farm=farm, job=job, secs=arguments.secs)
        # What is kept from now on, threads and connections, is as many as there may be.
        wrk.run("lookups", max(arguments.connections))
        before = _open(farm)
        first = wrk.run("lookups", 1)
        wrk.usual_ms = first.p50_ms
        loads = [wrk.run(kind, many) for kind in arguments.kinds for many in arguments.connections]
        time.sleep(_QUIET_SECS)
        after = _open(farm)
        last = wrk.run("lookups", 1)
    _report(loads, first, last, before, after, docs=arguments.docs)
    return int(any(load.failed or load.refused != load.retry_after for load in loads))


@dataclass(slots=True, kw_only=True)
class _Wrk:
    farm: PlainFarm
    job: str
    secs: float
    #: Of a lookup while nobody else asks; infinite until it is known.
    usual_ms: float = math.inf

    def run(self, kind: str, connections: int) -> Load:
        home = Path(self.farm.env["TILEFARM_WORK_DIR"])
        api, postgres = self.farm.roles.tree("api"), _tree(self.farm.postgres.pid)
        before = processor_secs(api), processor_secs(postgres)
        command = ["wrk", "--threads", "1", "--connections", str(connections), "--duration"]
        words = [
            f"{max(1, round(self.secs))}s",
            "--timeout",
            "30s",
            "--script",
            str(_SCRIPT),
            self.farm.url,
            "--",
        ]
        bodies = [str(home / "lookup.json"), str(home / "job.json")]
        patience = "ignores" if "impatient" in kind else "heeds"
        done = subprocess.run(
            [*command, *words, self.farm.token, kind.partition(",")[0], self.job, *bodies, patience],
            capture_output=True,
            text=True,
            check=True,
        )
        spent = processor_secs(api), processor_secs(_tree(self.farm.postgres.pid))
        recovered_secs = self._recovery(home / "lookup.json")
        line = next(line for line in done.stdout.splitlines() if line.startswith("RESULT "))
        told = json.loads(line.removeprefix("RESULT "))
        answered = max(1, told["ok"] + told["refused"] + told["failed"])
        return Load(
            kind=kind,
            connections=connections,
            **told,
            api_cpu_ms=1e3 * (spent[0] - before[0]) / answered,
            postgres_cpu_ms=1e3 * (spent[1] - before[1]) / answered,
            recovered_secs=recovered_secs,
        )

    def _recovery(self, body: Path) -> float:
        """Seconds until a client that asks one lookup after the other begins to be served as usual."""
        content, headers = body.read_bytes(), {"Content-Type": "application/json"}
        began = since = time.monotonic()
        good = 0
        while good < _GOOD and since - began < _GIVEN_UP_SECS:
            asked = time.monotonic()
            answer = self.farm.http.post("/v1/lookup", content=content, headers=headers)
            slow = 1e3 * (time.monotonic() - asked) > _SLOW_RATIO * self.usual_ms
            if slow or not answer.is_success:
                good, since = 0, time.monotonic()
            else:
                good += 1
        return since - began


def _prepare(farm: PlainFarm) -> str:
    """Fills the database and writes the bodies that are asked; returns a job with many trials."""
    engine = connect(farm.postgres.url())
    fill(engine, Size(trials=60_000, trials_per_search=64, large=10_000))
    engine.dispose()
    with psycopg.connect(farm.dsn) as connection:
        job = connection.execute("SELECT job_id FROM tasks ORDER BY id DESC LIMIT 1").fetchone()
        shashes = connection.execute("SELECT shash FROM workloads ORDER BY id LIMIT 200").fetchall()
    assert job is not None
    home = Path(farm.env["TILEFARM_WORK_DIR"])
    home.mkdir(parents=True, exist_ok=True)
    # Every eighth generated search is for this target: the others' workloads are near hits.
    asked = [row[0] for row in shashes[:: len(shashes) // _LOOKUP_WORKLOADS]][:_LOOKUP_WORKLOADS]
    lookup = {"target": generated_target(2), "tvm_version": "0.27", "workloads": asked}
    (home / "lookup.json").write_text(json.dumps(lookup))
    request = {**body("mm", max_trials=1), "target": generated_target(2)}
    (home / "job.json").write_text(json.dumps(request))
    # The first submission waits for the fork server; it is not what is measured.
    farm.http.post("/v1/jobs", json=request).raise_for_status()
    return str(job[0])


def _open(farm: PlainFarm) -> Open:
    with psycopg.connect(farm.dsn) as connection:
        row = connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'"
        ).fetchone()
    assert row is not None
    return Open(files=farm.roles.tree("api")[0].num_fds(), database_connections=int(row[0]) - 1)


def _tree(pid: int) -> list[psutil.Process]:
    process = psutil.Process(pid)
    return [process, *process.children(recursive=True)]


def _report(loads: Sequence[Load], first: Load, last: Load, before: Open, after: Open, *, docs: bool) -> None:
    machine = this_machine()
    found = {"first": asdict(first), "last": asdict(last), "before": asdict(before), "after": asdict(after)}
    write_json("load.json", {"machine": asdict(machine), "loads": [asdict(load) for load in loads], **found})
    head = ["kind", "connections", "answered/s", "p50, ms", "p99, ms", "api CPU, ms", "database CPU, ms"]
    rows = [
        [
            load.kind,
            str(load.connections),
            f"{load.ok / load.secs:.0f}",
            f"{load.p50_ms:.1f}",
            f"{load.p99_ms:.1f}",
            f"{load.api_cpu_ms:.2f}",
            f"{load.postgres_cpu_ms:.2f}",
            f"{load.refused} ({load.retry_after})",
            str(load.failed + load.broken),
            f"{load.recovered_secs:.2f}",
        ]
        for load in loads
    ]
    told = (
        f"{machine}. One API process, PostgreSQL and wrk on the same cores; a lookup asks for "
        f"{_LOOKUP_WORKLOADS} workloads. Times are of all answers, refusals included. Recovered: from the "
        f"end of the load until {_GOOD} lookups of one client, one after the other, take at most "
        f"{_SLOW_RATIO:.0f} times as long as usual."
    )
    recovered = (
        f"One client's lookups, p50 / p99: {first.p50_ms:.1f} / {first.p99_ms:.1f} ms before, "
        f"{last.p50_ms:.1f} / {last.p99_ms:.1f} ms after. Open files of the API: {before.files} before, "
        f"{after.files} after; its connections to the database: {before.database_connections} before, "
        f"{after.database_connections} after (its pool keeps 12)."
    )
    table = "\n".join([
        told,
        "",
        *markdown_table([*head, "refused 503 (with Retry-After)", "errors", "recovered, s"], rows),
        "",
        recovered,
    ])  # fmt: skip
    print(table)
    if docs:
        write_section("load", table)
