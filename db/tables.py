"""The rows of tuning. A row is the truth; a message is a doorbell. Others: farm_tables.py, caller_tables.py.

Who writes what: the API writes jobs (insert and intents), tasks, workloads, targets, workers, tokens, browser
keys, idempotency keys and lookup traffic; the tuner service is the only writer of searches, trials and
published records, and of the states of jobs and tasks. JSON columns are JSONB on PostgreSQL. Big texts are
zlib-compressed bytes.
"""

from datetime import datetime
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Text,
    UniqueConstraint,
    false,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from db.clock import UtcDateTime, utc_now

#: SQLite only autoincrements INTEGER primary keys.
BigId = BigInteger().with_variant(Integer(), "sqlite")
Json = JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")


class Row(DeclarativeBase):
    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
            "pk": "pk_%(table_name)s",
        }
    )


class TargetRow(Row):
    """A TVM target in canonical form; never a machine."""

    __tablename__ = "targets"
    id: Mapped[int] = mapped_column(BigId, primary_key=True, autoincrement=True)
    #: SHA-256 (hex) of the canonical JSON; names the target's queues.
    key: Mapped[str] = mapped_column(String(64), unique=True)
    #: The canonical dict, as checks.target.canonical gives it.
    canonical: Mapped[dict[str, Any]] = mapped_column(Json)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime, default=utc_now())


class ProfileRow(Row):
    """A name for a target: `local`, `rocketlake-2c`."""

    __tablename__ = "profiles"
    name: Mapped[str] = mapped_column(String(120), primary_key=True)
    target_id: Mapped[int] = mapped_column(ForeignKey("targets.id"))
    created_at: Mapped[datetime] = mapped_column(UtcDateTime, default=utc_now())


class WorkloadRow(Row):
    """An IRModule with one PrimFunc in canonical form. The hash is an index, structural equality decides."""

    __tablename__ = "workloads"
    __table_args__ = (
        UniqueConstraint("tvm_version", "shash", "ordinal"),
        # What there is instead of a missed record, whatever its TVM.
        Index("ix_workloads_shash", "shash"),
        Index("ix_workloads_anchor", "anchor_hash", "tvm_version"),
    )
    id: Mapped[int] = mapped_column(BigId, primary_key=True, autoincrement=True)
    tvm_version: Mapped[str] = mapped_column(String(40))
    #: Structural hash, 16 lower-case hex digits.
    shash: Mapped[str] = mapped_column(String(16))
    #: 0, or more where another workload has the same hash but is not structurally equal.
    ordinal: Mapped[int] = mapped_column(Integer, default=0)
    #: zlib of the canonical module's JSON text.
    module_z: Mapped[bytes] = mapped_column(LargeBinary)
    #: SHA-256 (hex) of the canonical module's JSON text.
    module_sha256: Mapped[str] = mapped_column(String(64))
    flops: Mapped[float] = mapped_column(Float)
    #: [{"shape": [..], "dtype": "float32"}, ..] by parameter.
    args: Mapped[list[dict[str, Any]]] = mapped_column(Json)
    #: Structural hash (16 hex) of the anchor block alone; None where there is none, or nobody computed it.
    anchor_hash: Mapped[str | None] = mapped_column(String(16))
    #: Names of its blocks, for searching; None where a release before 0010 stored it meanwhile.
    operations: Mapped[str | None] = mapped_column(String(400))
    created_at: Mapped[datetime] = mapped_column(UtcDateTime, default=utc_now())


class JobRow(Row):
    """A user's request: tasks + trial budget + priority + owner."""

    __tablename__ = "jobs"
    __table_args__ = (
        Index("ix_jobs_created", "created_at", "id"),
        Index("ix_jobs_state", "state", "priority"),
        Index("ix_jobs_owner", "owner", "created_at", "id"),
    )
    #: `job-` and 16 base32 characters.
    id: Mapped[str] = mapped_column(String(24), primary_key=True)
    name: Mapped[str] = mapped_column(String(200))
    #: The name of the token that submitted it.
    owner: Mapped[str] = mapped_column(String(120))
    target_id: Mapped[int] = mapped_column(ForeignKey("targets.id"))
    #: The target as the user named it, for show.
    target_name: Mapped[str] = mapped_column(String(200))
    state: Mapped[str] = mapped_column(String(16), default="queued")
    desired_state: Mapped[str] = mapped_column(String(16), default="running")
    priority: Mapped[int] = mapped_column(Integer, default=0)
    max_trials: Mapped[int] = mapped_column(Integer)
    max_trials_per_task: Mapped[int | None] = mapped_column(Integer)
    #: Search trials charged to this job so far; never above max_trials.
    trials_reserved: Mapped[int] = mapped_column(Integer, default=0)
    strategy: Mapped[str] = mapped_column(String(40))
    seed: Mapped[int] = mapped_column(BigInteger, default=0)
    #: Options as validated: measure policy, batch size, isolation key, search settings.
    options: Mapped[dict[str, Any]] = mapped_column(Json, default=dict)
    warnings: Mapped[list[dict[str, Any]]] = mapped_column(Json, default=list)
    error: Mapped[str | None] = mapped_column(Text)
    #: Grows with every change that a watcher should see; the id of server-sent events.
    revision: Mapped[int] = mapped_column(BigInteger, default=1)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime, default=utc_now())
    started_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    finished_at: Mapped[datetime | None] = mapped_column(UtcDateTime)


class SearchRow(Row):
    """What is leased and what tunes; tasks of several jobs attach to it."""

    __tablename__ = "searches"
    __table_args__ = (
        Index("ix_searches_state", "state", "lease_expires_at"),
        Index("ix_searches_target", "target_id", "id"),
    )
    id: Mapped[int] = mapped_column(BigId, primary_key=True, autoincrement=True)
    #: SHA-256 (hex) of (workload, target, TVM version, space hash, strategy, seed, policy hash, search
    #: options, isolation key) as JSON: what makes two tasks share one search.
    key: Mapped[str] = mapped_column(String(64), unique=True)
    workload_id: Mapped[int] = mapped_column(ForeignKey("workloads.id"))
    target_id: Mapped[int] = mapped_column(ForeignKey("targets.id"))
    tvm_version: Mapped[str] = mapped_column(String(40))
    #: None for the default post-order-apply space, else {"traces", "postprocs", "mutators"}.
    space: Mapped[dict[str, Any] | None] = mapped_column(Json)
    space_hash: Mapped[str] = mapped_column(String(64))
    strategy: Mapped[str] = mapped_column(String(40))
    seed: Mapped[int] = mapped_column(BigInteger)
    #: MeasurePolicy as JSON (workers/messages.py).
    policy: Mapped[dict[str, Any]] = mapped_column(Json)
    policy_hash: Mapped[str] = mapped_column(String(64))
    #: Search settings: batch_size, population_size, … (tuner/search).
    options: Mapped[dict[str, Any]] = mapped_column(Json, default=dict)
    isolation_key: Mapped[str] = mapped_column(String(120), default="")
    state: Mapped[str] = mapped_column(String(16), default="active")
    error: Mapped[str | None] = mapped_column(Text)
    #: Rounds asked for so far; round r sees exactly the results of the rounds up to r - 2.
    rounds: Mapped[int] = mapped_column(Integer, default=0)
    #: Deaths of the search child since the last round that succeeded.
    crashes: Mapped[int] = mapped_column(Integer, default=0)
    #: Latency of the untuned module, and of the best measured (not yet published) trial, in seconds.
    untuned_latency_secs: Mapped[float | None] = mapped_column(Float)
    best_latency_secs: Mapped[float | None] = mapped_column(Float)
    best_trial_id: Mapped[int | None] = mapped_column(BigInteger)
    #: Seconds spent by stage: {"search": .., "replay": .., "build": .., "check": .., "measure": ..}.
    stage_secs: Mapped[dict[str, float]] = mapped_column(Json, default=dict)
    lease_owner: Mapped[str | None] = mapped_column(String(120))
    lease_epoch: Mapped[int] = mapped_column(BigInteger, default=0)
    lease_expires_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime, default=utc_now())


class TaskRow(Row):
    """A job's row: (workload, target, weight, name), as TVM's ExtractedTask; attached to a search."""

    __tablename__ = "tasks"
    __table_args__ = (
        UniqueConstraint("job_id", "ordinal"),
        Index("ix_tasks_search", "search_id", "state"),
    )
    id: Mapped[int] = mapped_column(BigId, primary_key=True, autoincrement=True)
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"))
    ordinal: Mapped[int] = mapped_column(Integer)
    #: The GlobalVar's name in the submitted module, or how it begins.
    name: Mapped[str] = mapped_column(String(300))
    workload_id: Mapped[int] = mapped_column(ForeignKey("workloads.id"))
    search_id: Mapped[int] = mapped_column(ForeignKey("searches.id"))
    weight: Mapped[float] = mapped_column(Float, default=1.0)
    state: Mapped[str] = mapped_column(String(16), default="queued")
    error: Mapped[str | None] = mapped_column(Text)
    #: Search trials charged to this task so far.
    trials_reserved: Mapped[int] = mapped_column(Integer, default=0)
    #: True where the task ended because its space has nothing left.
    exhausted: Mapped[bool] = mapped_column(default=False)
    #: Why the task ended before its budget was spent, where its job asked for that.
    stopped: Mapped[str | None] = mapped_column(String(200))
    #: The record that was current when the task ended.
    record_id: Mapped[int | None] = mapped_column(BigInteger)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime, default=utc_now())
    finished_at: Mapped[datetime | None] = mapped_column(UtcDateTime)


class TrialRow(Row):
    """A candidate accepted for measuring: the state-machine row. Only the tuner service writes it.

    Outcomes are recorded by compare-and-set on (id, attempt, state = dispatched).
    """

    __tablename__ = "trials"
    __table_args__ = (
        UniqueConstraint("search_id", "purpose", "trace_hash"),
        Index("ix_trials_search_state", "search_id", "state"),
        Index("ix_trials_job", "job_id", "id"),
        Index("ix_trials_task", "task_id", "id"),
        # Trials that wait or are under way: few, however many there have been.
        Index(
            "ix_trials_open", "state", "search_id", postgresql_where=text("state IN ('queued', 'dispatched')")
        ),
        Index("ix_trials_program", "search_id", "program_hash"),
        # Rows are wide; these cover what watchers read of all of them: curves, counts of jobs, failures.
        Index(
            "ix_trials_curve",
            *("search_id", "purpose", "id", "outcome", "latency_secs", "predicted_score", "round", "done_at"),
        ),
        Index("ix_trials_count", "job_id", "purpose", "task_id", "state", "outcome"),
        Index("ix_trials_outcome", "purpose", "outcome", "id"),
        # Without worker_id the note of a start could be a HOT update, if pages had room for a row so wide: of
        # 4000 trials' none was, and a quarter with pages that are filled by 70 %, in no less time.
        Index("ix_trials_done", "done_at", "worker_id", "outcome"),
        # Some tens of a search's trials, however many it has.
        Index(
            "ix_trials_improved",
            *("search_id", "id", "latency_secs", "done_at", "improved"),
            postgresql_where=text("improved"),
            sqlite_where=text("improved = 1"),
        ),
    )
    id: Mapped[int] = mapped_column(BigId, primary_key=True, autoincrement=True)
    search_id: Mapped[int] = mapped_column(ForeignKey("searches.id"))
    #: Charged to this job and task.
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"))
    task_id: Mapped[int] = mapped_column(ForeignKey("tasks.id", ondelete="CASCADE"))
    purpose: Mapped[str] = mapped_column(String(16), default="search")
    state: Mapped[str] = mapped_column(String(16), default="queued")
    round: Mapped[int] = mapped_column(Integer, default=0)
    #: The newest round whose results its own had seen, negative: none. None where no search was asked for it.
    learnt_round: Mapped[int | None] = mapped_column(Integer)
    #: SHA-256 (hex) of the trace's canonical JSON text.
    trace_hash: Mapped[str] = mapped_column(String(64))
    #: zlib of the trace's JSON text.
    trace_z: Mapped[bytes | None] = mapped_column(LargeBinary)
    #: Structural hash (16 hex) of the module after postprocs.
    program_hash: Mapped[str | None] = mapped_column(String(16))
    #: Feature rows of the candidate, as tuner.features packs them.
    features_z: Mapped[bytes | None] = mapped_column(LargeBinary)
    #: The cost model's score when it was suggested; None at random start.
    predicted_score: Mapped[float | None] = mapped_column(Float)
    #: Deliveries so far; fences outcomes.
    attempt: Mapped[int] = mapped_column(Integer, default=0)
    #: Deliveries that a worker reported started.
    started_attempts: Mapped[int] = mapped_column(Integer, default=0)
    chunk_id: Mapped[str | None] = mapped_column(String(32))
    dispatched_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    deadline_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    outcome: Mapped[str | None] = mapped_column(String(16))
    #: One float (seconds) per repeat; None where nothing was measured.
    run_secs: Mapped[list[float] | None] = mapped_column(Json)
    #: Median of run_secs.
    latency_secs: Mapped[float | None] = mapped_column(Float)
    #: An improvement: faster than every trial that was done before it in its search.
    improved: Mapped[bool] = mapped_column(default=False, server_default=false())
    #: Of the incumbent, where purpose is confirm.
    incumbent_run_secs: Mapped[list[float] | None] = mapped_column(Json)
    incumbent_record_id: Mapped[int | None] = mapped_column(BigInteger)
    error: Mapped[str | None] = mapped_column(Text)
    stage_secs: Mapped[dict[str, float] | None] = mapped_column(Json)
    worker_id: Mapped[str | None] = mapped_column(String(40))
    #: Of the workers whose queue the newest attempt was sent to.
    role: Mapped[str | None] = mapped_column(String(16))
    #: What a build worker made of it (workers.messages.Built as JSON); None while it is to be built.
    built: Mapped[dict[str, Any] | None] = mapped_column(Json)
    device_class: Mapped[str | None] = mapped_column(String(200))
    tvm_version: Mapped[str | None] = mapped_column(String(40))
    created_at: Mapped[datetime] = mapped_column(UtcDateTime, default=utc_now())
    done_at: Mapped[datetime | None] = mapped_column(UtcDateTime)


class RecordRow(Row):
    """A TuningRecord. The newest published row of a (workload, target, TVM version) is the current one."""

    __tablename__ = "records"
    __table_args__ = (Index("ix_records_lookup", "workload_id", "target_id", "tvm_version", "state", "id"),)
    id: Mapped[int] = mapped_column(BigId, primary_key=True, autoincrement=True)
    workload_id: Mapped[int] = mapped_column(ForeignKey("workloads.id"))
    target_id: Mapped[int] = mapped_column(ForeignKey("targets.id"))
    tvm_version: Mapped[str] = mapped_column(String(40))
    state: Mapped[str] = mapped_column(String(16), default="published")
    trace_z: Mapped[bytes] = mapped_column(LargeBinary)
    trace_hash: Mapped[str] = mapped_column(String(64))
    #: Of the confirmation, one float (seconds) per repeat.
    run_secs: Mapped[list[float]] = mapped_column(Json)
    latency_secs: Mapped[float] = mapped_column(Float)
    #: The search trial that found it, and the confirm trial that confirmed it.
    trial_id: Mapped[int | None] = mapped_column(BigInteger)
    confirm_trial_id: Mapped[int | None] = mapped_column(BigInteger, unique=True)
    policy: Mapped[dict[str, Any]] = mapped_column(Json)
    device_class: Mapped[str] = mapped_column(String(200))
    #: Ed25519, base64, over what services/signing.py names; None where the service had no key.
    signature: Mapped[str | None] = mapped_column(String(96))
    #: The key that signed it.
    signing_key_id: Mapped[str | None] = mapped_column(String(16))
    #: Of an imported record: the search that measures it again; None while nobody asked for that.
    verify_search_id: Mapped[int | None] = mapped_column(BigInteger)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime, default=utc_now())
