"""Rows for the tuner service's tests: a farm with one target, jobs with tasks, and a worker."""

import hashlib
import json
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Engine, func, insert, select, update

from db.clock import utc_now
from db.farm_tables import WorkerRow
from db.searches import Lease, claim_search
from db.session import reading, transaction
from db.states import Outcome, Purpose, TrialState
from db.tables import JobRow, SearchRow, TargetRow, TaskRow, TrialRow, WorkloadRow
from db.trials import NewTrial, insert_trials
from tuner.search.strategy import Candidate

MODULE = '{"a module":1}'
TARGET = {"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 1}
TVM_VERSION = "0.27.0"


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def add_target(engine: Engine, target: Mapping[str, Any] = TARGET) -> int:
    key = sha256(json.dumps(target, sort_keys=True))
    with transaction(engine) as session:
        statement = insert(TargetRow).values(key=key, canonical=dict(target)).returning(TargetRow.id)
        return session.scalars(statement).one()


def add_search(
    engine: Engine, target_id: int, *, name: str = "w", module: str = MODULE, **values: Any
) -> int:
    with transaction(engine) as session:
        workload_id = session.scalars(
            insert(WorkloadRow)
            .values(
                tvm_version=TVM_VERSION,
                shash=sha256(name)[:16],
                module_z=zlib.compress(module.encode()),
                module_sha256=sha256(module),
                flops=2e6,
                args=[],
            )
            .returning(WorkloadRow.id)
        ).one()
        fields = {
            "key": sha256(f"search {name}"),
            "workload_id": workload_id,
            "target_id": target_id,
            "tvm_version": TVM_VERSION,
            "space_hash": sha256("default"),
            "strategy": "evolutionary",
            "seed": 0,
            "policy": {},
            "policy_hash": sha256("{}"),
        }
        return session.scalars(insert(SearchRow).values(**fields | values).returning(SearchRow.id)).one()


def add_job(
    engine: Engine,
    search_ids: Sequence[int],
    *,
    job_id: str = "job-1",
    max_trials: int = 8,
    state: str = "queued",
    **values: Any,
) -> list[int]:
    """A job with one task for each search; returns the task ids."""
    with transaction(engine) as session:
        search = session.get_one(SearchRow, search_ids[0])
        session.execute(
            insert(JobRow).values(
                id=job_id,
                name=job_id,
                owner="tests",
                target_id=search.target_id,
                target_name="local",
                strategy="evolutionary",
                max_trials=max_trials,
                state=state,
                **values,
            )
        )
        return [
            session.scalars(
                insert(TaskRow)
                .values(
                    job_id=job_id,
                    ordinal=ordinal,
                    name=f"f{ordinal}",
                    workload_id=session.get_one(SearchRow, search_id).workload_id,
                    search_id=search_id,
                    state="running" if state == "running" else "queued",
                )
                .returning(TaskRow.id)
            ).one()
            for ordinal, search_id in enumerate(search_ids)
        ]


def add_worker(engine: Engine, target_id: int, *, worker_id: str = "worker-1", **values: Any) -> None:
    with transaction(engine) as session:
        fields = {
            "id": worker_id,
            "name": "host:0",
            "host": "host",
            "device": "cpu0",
            "device_class": "cpu",
            "target_id": target_id,
            "cores": 1,
            "memory_bytes": 1 << 30,
            "tvm_version": TVM_VERSION,
        }
        session.execute(insert(WorkerRow).values(**fields | values))


def set_worker(engine: Engine, worker_id: str, **values: Any) -> None:
    with transaction(engine) as session:
        session.execute(update(WorkerRow).where(WorkerRow.id == worker_id).values(**values))


def heard(
    engine: Engine, worker_id: str, holding: Sequence[Sequence[int]] = (), *, ago_secs: float = 0.0
) -> None:
    set_worker(
        engine,
        worker_id,
        holding=[list(pair) for pair in holding],
        heartbeat_at=utc_now(offset_secs=-ago_secs),
    )


def add_trials(engine: Engine, search_id: int, task_id: int, count: int, **values: Any) -> list[int]:
    """Queued search trials; `values` are written over them afterwards."""
    with transaction(engine) as session:
        job_id = session.get_one(TaskRow, task_id).job_id
        start = session.scalar(select(func.count()).select_from(TrialRow)) or 0
        new = [
            NewTrial(
                job_id=job_id,
                task_id=task_id,
                purpose=Purpose.SEARCH,
                round=0,
                trace_hash=sha256(f"trace {number}"),
                trace_z=zlib.compress(f"[[],[{number}]]".encode()),
                program_hash=f"{number:016x}",
            )
            for number in range(start, start + count)
        ]
        insert_trials(session, search_id, new)
        hashes = [trial.trace_hash for trial in new]
        mine = TrialRow.trace_hash.in_(hashes)
        if values:
            session.execute(update(TrialRow).where(mine).values(**values))
        return list(session.scalars(select(TrialRow.id).where(mine).order_by(TrialRow.id)))


def candidates(count: int, *, first: int = 0) -> list[Candidate]:
    return [
        Candidate(
            trace=f"[[],[{number}]]",
            trace_hash=sha256(f"candidate {number}"),
            program_hash=f"{number:016x}",
            features=b"",
            predicted_score=None,
        )
        for number in range(first, first + count)
    ]


def claim(engine: Engine, search_id: int, *, owner: str = "a", secs: float = 30.0) -> Lease:
    with transaction(engine) as session:
        lease = claim_search(session, search_id, owner=owner, secs=secs)
    assert lease is not None
    return lease


def read(engine: Engine, column: Any, *where: Any) -> list[Any]:
    """One column of all rows that match, by primary key."""
    with reading(engine) as session:
        row = column.class_
        return list(session.scalars(select(column).where(*where).order_by(row.id)))


def states(engine: Engine, job_id: str = "job-1") -> dict[str, int]:
    with reading(engine) as session:
        statement = select(TrialRow.state, func.count()).where(TrialRow.job_id == job_id)
        return {state: count for state, count in session.execute(statement.group_by(TrialRow.state))}  # noqa: C416 - rows, not pairs


def ok(latency_secs: float, **values: Any) -> dict[str, Any]:
    """What a row of an OK trial holds."""
    return {
        "state": TrialState.DONE,
        "outcome": Outcome.OK,
        "run_secs": [latency_secs],
        "latency_secs": latency_secs,
        "device_class": "cpu",
    } | values
