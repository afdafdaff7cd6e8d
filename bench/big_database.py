"""A database as the tuner service leaves it after much work: many jobs, one task with very many trials.

What is drawn is a plausible search, from a seed: latencies that fall, failures, cut-offs, decisions.
"""

import json
import math
import random
import zlib
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import func, insert, select, text, update
from sqlalchemy.orm import Session

from checks.target import canonical, key
from db.jobs import NewJob, insert_job
from db.session import connect, transaction
from db.tables import JobRow, SearchRow, TaskRow, TrialRow
from db.targets import store_target
from db.tasks import NewTask, SearchKey, find_or_make_search, insert_task
from db.workloads import NewWorkload, store_workload

TARGET = canonical({"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 2})
#: Trials of each job but the long one.
SMALL_TRIALS = 20
_BATCH = 2000
_ROUND = 16
_UNTUNED_SECS = 20e-3
_FASTEST_SECS = 0.2e-3
_IMPROVED = text(
    """UPDATE trials SET improved = true FROM (
         SELECT id, latency_secs, min(latency_secs) OVER (
             PARTITION BY search_id ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
         FROM trials WHERE outcome = 'ok') AS curve
       WHERE trials.id = curve.id AND (before IS NULL OR curve.latency_secs < before)"""
)
_ERRORS = ("the build took more than 10 s", "Cannot allocate 123456 bytes", "element 17 differs by 0.5")


def fill(url: str, *, jobs: int, trials: int) -> tuple[str, int]:
    """Into an empty migrated database; the id of the job with the long task, and of that task."""
    engine = connect(url)
    begin = datetime.now(UTC) - timedelta(hours=8)
    try:
        with transaction(engine) as session:
            others = [_job(session, f"model {number} layer", number) for number in range(1, jobs)]
            long = _job(session, "the long search", 0)
            for job, task, search in others:
                _trials(session, job, task, search, count=SMALL_TRIALS, begin=begin)
        for start in range(0, trials, _BATCH):
            with transaction(engine) as session:
                _trials(
                    session, *long, count=min(_BATCH, trials - start), begin=begin, start=start, of=trials
                )
        with transaction(engine) as session:
            _finish(session)
    finally:
        engine.dispose()
    return long[0], long[1]


def _job(session: Session, name: str, number: int) -> tuple[str, int, int]:
    target = store_target(session, TARGET, key=key(TARGET))
    job_id = insert_job(
        session,
        NewJob(
            name=f"{name} {number}", owner="bench", target_id=target.id, target_name="local", priority=0,
            max_trials=1_000_000, max_trials_per_task=None, strategy="evolutionary", seed=number, options={},
            warnings=[],
        ),
    )  # fmt: skip
    workload_id = store_workload(
        session,
        NewWorkload(
            tvm_version="0.27", shash=f"{number:016x}", module="{}", flops=2e8,
            args=[{"shape": [128, 128 + number], "dtype": "float32"}],
        ),
        known=0,
    )  # fmt: skip
    assert workload_id is not None
    search = SearchKey(
        workload_id=workload_id, target_id=target.id, target_key=target.key, tvm_version="0.27", space=None,
        space_hash="", strategy="evolutionary", seed=number, policy={}, options={}, isolation_key="",
    )  # fmt: skip
    search_id = find_or_make_search(session, search)
    insert_task(
        session,
        NewTask(
            job_id=job_id, ordinal=0, name=f"dense_{number}", weight=1.0, workload_id=workload_id,
            search_id=search_id,
        ),
    )  # fmt: skip
    task_id = session.scalars(select(TaskRow.id).where(TaskRow.job_id == job_id)).one()
    return job_id, task_id, search_id


def _trials(
    session: Session,
    job_id: str,
    task_id: int,
    search_id: int,
    *,
    count: int,
    begin: datetime,
    start: int = 0,
    of: int | None = None,
) -> None:
    draw = random.Random(f"{search_id} {start}")
    rows = [
        {"search_id": search_id, "job_id": job_id, "task_id": task_id, "state": "done", "attempt": 1}
        | _trial(draw, number, of or count)
        | {"done_at": begin + timedelta(seconds=0.25 * number)}
        for number in range(start, start + count)
    ]
    session.execute(insert(TrialRow), rows)


def _trial(draw: random.Random, number: int, of: int) -> dict[str, Any]:
    luck = draw.random()
    outcome = "ok" if luck < 0.8 else "cut_off" if luck < 0.95 else "build_error"
    floor = _FASTEST_SECS * (1 + 20 * math.exp(-6 * number / of))
    inner = 2 ** draw.randrange(7)
    latency = floor * (1 + draw.expovariate(0.5)) * (1 + abs(inner - 16) / 16)
    return {
        "round": number // _ROUND,
        "trace_hash": f"{number:064x}",
        "trace_z": zlib.compress(json.dumps(_trace(draw, inner)).encode(), 1),
        "outcome": outcome,
        "latency_secs": latency if outcome == "ok" else None,
        "run_secs": [latency, latency * 1.01] if outcome == "ok" else None,
        "predicted_score": min(1.0, _FASTEST_SECS / latency + draw.gauss(0, 0.1)),
        "error": draw.choice(_ERRORS) if outcome == "build_error" else None,
        "worker_id": "worker-bench",
        "stage_secs": {"build": 0.12, "measure": 0.05, "wait": 0.2},
    }


def _trace(draw: random.Random, inner: int) -> list[Any]:
    tile = [128 // inner, 1, 1, inner]
    steps: list[list[Any]] = [
        ["GetSBlock", [], ["C", "main"], ["b0"]],
        ["GetLoops", ["b0"], [], ["l1", "l2"]],
        ["SamplePerfectTile", ["l1"], [4, 64], ["v3", "v4", "v5", "v6"]],
        ["SamplePerfectTile", ["l2"], [2, 64], ["v7", "v8"]],
        ["SampleCategorical", [], [[0, 16, 64, 512], [0.25] * 4], ["v9"]],
        ["Annotate", ["b0", "v9"], ["meta_schedule.unroll_explicit"], []],
    ]
    return [steps, [[2, tile], [3, [64, 2 ** draw.randrange(5)]], [4, draw.randrange(4)]]]


def _finish(session: Session) -> None:
    """States, bests and improvements, as the tuner service writes them."""
    session.execute(_IMPROVED)
    best = select(TrialRow.search_id, func.min(TrialRow.latency_secs)).group_by(TrialRow.search_id)
    for search_id, latency_secs in session.execute(best).all():
        session.execute(
            update(SearchRow)
            .where(SearchRow.id == search_id)
            .values(
                best_latency_secs=latency_secs, untuned_latency_secs=_UNTUNED_SECS, stage_secs={"build": 9.0}
            )
        )
    session.execute(update(JobRow).values(state="running", revision=2, started_at=JobRow.created_at))
