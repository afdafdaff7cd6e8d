"""A farm's rows as an older release held them, written without today's tables: only what its schema had.

Every table of the revision gets rows. What a newer one adds is filled by type, so it needs no change here.
"""

import zlib
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from alembic import command
from alembic.script import ScriptDirectory
from sqlalchemy import Column, Connection, Engine, MetaData, Table, insert, select

from db import migrate
from db.session import connect

JOB = "job-aaaaaaaaaaaaaaaa"
MODULE = (
    '{"root_index": 0, "nodes": [{"type": "s_tir.SBlock", "data": {"name_hint": 1}},'
    ' {"type": "ffi.String", "data": "T_add_1"}]}'
)
TRACE = "[[],[]]"
SHASH = "00000000000000aa"
TVM_VERSION = "0.27.0.post1"
#: Search trials; a baseline and a confirmation stand beside them.
TRIALS = 40
ALL_TRIALS = TRIALS + 2
#: That of the search's best trial.
BEST = 20
#: A release before it was never given to anybody.
OLDEST = "0002"

_TIME = datetime(2026, 9, 1, 12, tzinfo=UTC)
_MADE: Mapping[type, Any] = {str: "x", int: 1, float: 1.0, bool: False, dict: {}, bytes: b"x"}
_TIMES = frozenset({"as_of", "hour"})


def revisions() -> list[str]:
    """Those that an upgrade may start from, the oldest first and the head last."""
    scripts = ScriptDirectory.from_config(migrate._config()).walk_revisions()
    return sorted(script.revision for script in scripts if script.revision >= OLDEST)


def filled_at(url: str, revision: str) -> Engine:
    """A database at a revision with one job of everything: done, failed, queued and dispatched trials."""
    engine = connect(url)
    upgrade_to(engine, revision)
    with engine.begin() as connection:
        _fill(connection)
    return engine


def upgrade_to(engine: Engine, revision: str) -> None:
    """As `db upgrade` does, but no further than a revision."""
    config = migrate._config()
    config.attributes["engine"] = engine
    command.upgrade(config, revision)


def _fill(connection: Connection) -> None:
    tables = MetaData()
    tables.reflect(connection)
    known = _rows(_time(connection))
    for table in tables.sorted_tables:
        if table.name == "alembic_version":
            continue
        for row in known.get(table.name, [None]):
            connection.execute(insert(table), _whole(connection, table, row))


def _whole(connection: Connection, table: Table, row: Mapping[str, Any] | None) -> dict[str, Any]:
    """The row as far as the table has its columns; what it lacks and may not be empty is made.

    So is all of a table that nobody knows.
    """
    lacking = [
        column
        for column in table.columns
        if row is None or (column.name not in row and not column.nullable and column.server_default is None)
    ]
    made = {column.name: _made(connection, column) for column in lacking}
    told = {name: value for name, value in (row or {}).items() if name in table.columns and value is not None}
    return made | told


def _made(connection: Connection, column: Column[Any]) -> Any:
    for key in column.foreign_keys:
        return connection.scalars(select(key.column).limit(1)).one()
    if column.name.endswith("_at") or column.name in _TIMES:
        return _time(connection)
    return _MADE[column.type.python_type]


def _time(connection: Connection) -> Any:
    return _TIME.strftime("%Y-%m-%d %H:%M:%S.000") if connection.dialect.name == "sqlite" else _TIME


def _rows(time: Any) -> dict[str, list[dict[str, Any]]]:
    """By table. None: the column was empty."""
    target = {"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 2}
    keyed = {"workload_id": 1, "target_id": 1, "tvm_version": TVM_VERSION, "created_at": time}
    token = {"token_id": 1, "created_at": time}
    missed = {"shash": "00000000000000bb", "target_key": "k" * 64, "tvm_version": TVM_VERSION}
    return {
        "targets": [{"id": 1, "key": "k" * 64, "canonical": target, "created_at": time}],
        "profiles": [{"name": "local", "target_id": 1, "created_at": time}],
        "workloads": [_workload(time)],
        "jobs": [_job(time)],
        "searches": [_search() | keyed],
        "tasks": [_task(time)],
        "trials": [_trial(number, time) for number in range(TRIALS)] + _others(time),
        "records": [_record() | keyed],
        "workers": [_worker(time)],
        "tokens": [
            {"id": 1, "name": "alice", "token_sha256": "h" * 64, "scopes": ["jobs:read"], "created_at": time}
        ],
        "browser_keys": [
            {"id": 1, "kind": "session", "key_sha256": "e" * 64, "read_only": False, "expires_at": time}
            | token
        ],
        "idempotency_keys": [{"key": "build-1", "body_sha256": "b" * 64, "job_id": JOB} | token],
        "artifacts": [{"sha256": "a" * 64, "data_z": zlib.compress(b"kernel"), "used_at": time}],
        "owners": [{"name": "alice", "weight": 2.0}],
        "usage": [{"owner": "alice", "target_id": 1, "device_secs": 5.0, "as_of": time}],
        "signing_keys": [{"id": "5" * 16, "public_key": "ed25519:AAAA", "created_at": time}],
        "lookup_traffic": [{"hour": time, "target_key": "k" * 64, "hits": 3, "near": 2, "misses": 1}],
        "lookup_misses": [{"target": target, "count": 4, "first_at": time, "last_at": time} | missed],
    }


def _workload(time: Any) -> dict[str, Any]:
    return {
        "id": 1,
        "shash": SHASH,
        "ordinal": 0,
        "module_z": zlib.compress(MODULE.encode()),
        "module_sha256": "5" * 64,
        "flops": 1e6,
        "args": [{"shape": [4], "dtype": "float32"}],
        "operations": "add",
        "tvm_version": TVM_VERSION,
        "created_at": time,
    }


def _job(time: Any) -> dict[str, Any]:
    submitted = {"id": JOB, "name": "old", "owner": "alice", "target_id": 1, "target_name": "local"}
    wanted = {"state": "running", "desired_state": "running", "priority": 0, "max_trials": 64}
    counted = {"trials_reserved": TRIALS, "revision": 7, "options": {}, "warnings": []}
    searched = {"strategy": "evolutionary", "seed": 0, "created_at": time, "started_at": time}
    return submitted | wanted | counted | searched


def _search() -> dict[str, Any]:
    what = {"id": 1, "key": "s" * 64, "space_hash": "", "strategy": "evolutionary", "seed": 0, "policy": {}}
    how = {"policy_hash": "", "options": {}, "isolation_key": ""}
    state = {"state": "active", "rounds": 3, "crashes": 0, "stage_secs": {"build": 1.5}, "lease_epoch": 4}
    best = {"best_latency_secs": _secs(BEST - 1), "best_trial_id": BEST, "untuned_latency_secs": 1e-2}
    return what | how | state | best


def _task(time: Any) -> dict[str, Any]:
    what = {"id": 1, "job_id": JOB, "ordinal": 0, "name": "main", "workload_id": 1, "search_id": 1}
    state = {"weight": 1.0, "state": "running", "trials_reserved": TRIALS, "exhausted": False}
    return what | state | {"created_at": time}


def _record() -> dict[str, Any]:
    found = {"id": 1, "state": "published", "trace_hash": f"{BEST - 1:064x}", "trial_id": BEST}
    measured = {"run_secs": [1e-3, 1.1e-3], "latency_secs": 1.05e-3, "policy": {}, "device_class": "old 2c"}
    signed = {"signature": "c2lnbmVk", "signing_key_id": "5" * 16}
    confirmed = {"trace_z": zlib.compress(TRACE.encode()), "confirm_trial_id": ALL_TRIALS}
    return found | measured | signed | confirmed


def _worker(time: Any) -> dict[str, Any]:
    what = {"id": "worker-old", "name": "old/cpu", "host": "old", "device": "cpu-0-1", "target_id": 1}
    is_ = {"device_class": "old 2c", "cores": 2, "memory_bytes": 1 << 30, "facts": {"model": "old"}}
    does = {"role": "both", "state": "left", "desired_state": "running", "holding": [], "stage_secs": {}}
    return what | is_ | does | {"tvm_version": TVM_VERSION, "started_at": time, "heartbeat_at": time}


def _secs(number: int) -> float:
    """Faster and faster up to the middle, then slower."""
    return 1e-3 + abs(number - TRIALS // 2) * 1e-5


def _trial(number: int, time: Any) -> dict[str, Any]:
    """One in ten waits, one in ten is under way, one in ten was given up."""
    state = {0: "queued", 1: "dispatched", 2: "failed"}.get(number % 10, "done")
    outcome = {"done": "ok", "failed": "worker_lost"}.get(state)
    ok = outcome == "ok"
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
        "run_secs": [_secs(number)] if ok else None,
        "latency_secs": _secs(number) if ok else None,
        "improved": ok and number < TRIALS // 2,
        "dispatched_at": None if state == "queued" else time,
        "deadline_at": time if state == "dispatched" else None,
        "done_at": time if outcome else None,
        "created_at": time,
    }


def _others(time: Any) -> list[dict[str, Any]]:
    """The baseline and the confirmation, both done."""
    done = _trial(BEST - 1, time) | {"improved": False}
    baseline = {"id": TRIALS + 1, "purpose": "baseline", "trace_hash": "0" * 64, "run_secs": [1e-2]}
    confirm = {"id": ALL_TRIALS, "purpose": "confirm", "run_secs": [1e-3, 1.1e-3], "latency_secs": 1.05e-3}
    return [done | baseline | {"latency_secs": 1e-2}, done | confirm]
