"""A farm's rows as revision 0002 held them, written without today's tables: only what that schema had."""

import zlib
from datetime import UTC, datetime
from typing import Any

from alembic import command
from sqlalchemy import Connection, Engine, MetaData, insert

from db import migrate
from db.session import connect

JOB = "job-aaaaaaaaaaaaaaaa"
MODULE = (
    '{"root_index": 0, "nodes": [{"type": "s_tir.SBlock", "data": {"name_hint": 1}},'
    ' {"type": "ffi.String", "data": "T_add_1"}]}'
)
TRACE = "[[],[]]"
SHASH = "00000000000000aa"
TRIALS = 40
_TIME = datetime(2026, 9, 1, 12, tzinfo=UTC)


def filled_at_0002(url: str) -> Engine:
    """A database at revision 0002 with one job of everything: done, failed, queued and dispatched trials."""
    engine = connect(url)
    config = migrate._config()
    config.attributes["engine"] = engine
    command.upgrade(config, "0002")
    with engine.begin() as connection:
        _fill(connection)
    return engine


def _fill(connection: Connection) -> None:
    tables = MetaData()
    tables.reflect(connection)
    sqlite = connection.dialect.name == "sqlite"
    time: Any = _TIME.strftime("%Y-%m-%d %H:%M:%S.000") if sqlite else _TIME

    def add(table: str, /, **values: Any) -> None:
        connection.execute(insert(tables.tables[table]), values)

    target = {"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 2}
    common = {"tvm_version": "0.27.0.post1", "created_at": time}
    add("targets", id=1, key="k" * 64, canonical=target, created_at=time)
    add("profiles", name="local", target_id=1, created_at=time)
    add(
        "workloads",
        id=1,
        shash=SHASH,
        ordinal=0,
        module_z=zlib.compress(MODULE.encode()),
        module_sha256="5" * 64,
        flops=1e6,
        args=[{"shape": [4], "dtype": "float32"}],
        **common,
    )
    job = {"owner": "alice", "target_id": 1, "target_name": "local", "strategy": "evolutionary", "seed": 0}
    wanted = {"state": "running", "desired_state": "running", "priority": 0, "max_trials": 64}
    counted = {"trials_reserved": TRIALS, "revision": 7, "options": {}, "warnings": []}
    add("jobs", id=JOB, name="old", created_at=time, started_at=time, **job, **wanted, **counted)
    search = {"space_hash": "", "strategy": "evolutionary", "seed": 0, "policy": {}, "policy_hash": ""}
    state = {"state": "active", "rounds": 3, "crashes": 0, "stage_secs": {"build": 1.5}, "lease_epoch": 4}
    key = {"key": "s" * 64, "workload_id": 1, "target_id": 1, "options": {}, "isolation_key": ""}
    add(
        "searches",
        id=1,
        best_latency_secs=1e-3,
        untuned_latency_secs=1e-2,
        **search,
        **state,
        **key,
        **common,
    )
    task = {"ordinal": 0, "name": "main", "workload_id": 1, "search_id": 1, "weight": 1.0}
    add(
        "tasks",
        id=1,
        job_id=JOB,
        state="running",
        trials_reserved=TRIALS,
        exhausted=False,
        created_at=time,
        **task,
    )
    for number in range(TRIALS):
        add("trials", **_trial(number, time), **common)
    record = {"workload_id": 1, "target_id": 1, "state": "published", "trace_hash": "t" * 64, "trial_id": 1}
    measured = {"run_secs": [1e-3, 1.1e-3], "latency_secs": 1.05e-3, "policy": {}, "device_class": "old 2c"}
    add("records", id=1, trace_z=zlib.compress(TRACE.encode()), **record, **measured, **common)
    add("tokens", id=1, name="alice", token_sha256="h" * 64, scopes=["jobs:read"], created_at=time)
    add("idempotency_keys", token_id=1, key="build-1", body_sha256="b" * 64, job_id=JOB, created_at=time)
    worker = {"device": "cpu-0-1", "device_class": "old 2c", "target_id": 1, "role": "both", "state": "left"}
    facts = {"desired_state": "running", "cores": 2, "memory_bytes": 1 << 30, "facts": {}, "holding": []}
    times = {"started_at": time, "heartbeat_at": time, "stage_secs": {}, "tvm_version": "0.27.0.post1"}
    add("workers", id="worker-old", name="old/cpu", host="old", **worker, **facts, **times)


def _trial(number: int, time: Any) -> dict[str, Any]:
    """One in ten waits, one in ten is under way, one in ten was given up."""
    state = {0: "queued", 1: "dispatched", 2: "failed"}.get(number % 10, "done")
    outcome = {"done": "ok", "failed": "worker_lost"}.get(state)
    # Faster and faster up to the middle, then slower.
    secs = 1e-3 + abs(number - TRIALS // 2) * 1e-5
    return {
        "id": number + 1,
        "search_id": 1,
        "job_id": JOB,
        "task_id": 1,
        "purpose": "search",
        "state": state,
        "round": number // 16,
        "trace_hash": f"{number:064x}",
        "trace_z": zlib.compress(TRACE.encode()),
        "program_hash": f"{number:016x}",
        "attempt": 0 if state == "queued" else 1,
        "started_attempts": 0,
        "outcome": outcome,
        "run_secs": [secs] if outcome == "ok" else None,
        "latency_secs": secs if outcome == "ok" else None,
        "dispatched_at": None if state == "queued" else time,
        "deadline_at": time if state == "dispatched" else None,
        "done_at": time if outcome else None,
    }
