"""Requests and responses of records, lookups, targets and workers."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from checks.target_family import NearRule
from db.imports import Verification
from db.states import Outcome, RecordState
from services.api.schemas import MAX_BIGINT, PlainName, TargetRequest

_SHASH = r"^[0-9a-f]{16}$"
Shash = Annotated[str, Field(pattern=_SHASH)]
TvmVersion = Annotated[str, Field(pattern=r"^[0-9A-Za-z.+_-]{1,40}$")]
Held = tuple[
    Annotated[int, Field(ge=1, le=MAX_BIGINT, strict=True)],
    Annotated[int, Field(ge=0, le=2**31 - 1, strict=True)],
]
StageSecs = dict[
    Annotated[str, Field(pattern=r"^[a-z_]{1,40}$")], Annotated[float, Field(ge=0, allow_inf_nan=False)]
]


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Response(BaseModel):
    model_config = ConfigDict(frozen=True)


class Lookup(_Request):
    target: TargetRequest
    tvm_version: TvmVersion
    workloads: list[Shash] = Field(max_length=10_000)
    #: Rules by which, for a workload without a record, a record of a near target may be answered beside it.
    near: list[NearRule] = Field(default_factory=list, max_length=8)
    #: For the rule anchor-block: the hash of each workload's anchor block, by the workload's.
    anchors: dict[Shash, Shash] = Field(default_factory=dict, max_length=10_000)


class FoundRecord(_Response):
    record_id: int
    #: Canonical module JSON text: confirm structural equality with it.
    module: str
    trace: Any
    run_secs: list[float]
    latency_secs: float
    tvm_version: str
    device_class: str
    created_at: datetime
    #: Ed25519 over module, target, trace and TVM version, base64; None where the service has no key.
    signature: str | None
    signing_key_id: str | None
    #: Changes whenever anything of the record does; the ETag of a lookup is made of these.
    etag: str


class NearRecord(FoundRecord):
    """A record of another target, or another workload, than was asked, by a rule that was asked for."""

    rule: NearRule
    #: Canonical; the record, and its signature, are for this one.
    target: dict[str, Any]
    target_key: str


class Missing(_Response):
    shash: str
    #: What there is instead: another target or TVM version of the same workload.
    nearest: str | None
    hint: str


class LookupAnswer(_Response):
    target: dict[str, Any]
    target_key: str
    records: dict[str, list[FoundRecord]]
    missing: list[Missing]
    #: Of missing workloads; empty unless `near` names a rule. Never an exact record.
    near: dict[str, NearRecord] = Field(default_factory=dict)


class VerificationView(_Response):
    """What became of an imported record."""

    #: waiting, measuring, refuted, measured (what stands is faster), or published.
    state: Verification
    outcome: Outcome | None
    error: str | None
    #: Median of the farm's own times, seconds.
    latency_secs: float | None
    #: The record that was published of it.
    published_id: int | None


class RecordView(_Response):
    id: int
    workload: str
    target: dict[str, Any]
    target_key: str
    tvm_version: str
    state: RecordState
    trace_hash: str
    run_secs: list[float]
    latency_secs: float
    gflops: float | None
    policy: dict[str, Any]
    device_class: str
    trial_id: int | None
    #: None where it is not signed.
    signing_key_id: str | None
    #: Of a quarantined record; None of all others.
    verification: VerificationView | None
    created_at: datetime


class RecordDetail(RecordView):
    trace: Any
    module: str


class RecordPage(_Response):
    records: list[RecordView]
    next_page_token: str | None


class TaskRecord(_Response):
    """The current record of a task's workload, readable by people."""

    record: RecordView
    trace: Any
    trace_python: str
    #: TVMScript of the scheduled and of the submitted module.
    script: str
    untuned_script: str


class SigningKeyView(_Response):
    id: str
    #: `ed25519:` and base64; compare it with what the operator told you before you trust it.
    public_key: str
    created_at: datetime
    #: Published records that carry its signature.
    records: int


class SigningKeyList(_Response):
    keys: list[SigningKeyView]


class ProfileView(_Response):
    name: str
    target: dict[str, Any]
    key: str
    workers_alive: int


class ProfileList(_Response):
    targets: list[ProfileView]


class JoinWorker(_Request):
    name: PlainName
    host: PlainName
    device: Annotated[str, Field(min_length=1, max_length=120, pattern=r"^[^\x00-\x1f\x7f]*$")]
    device_class: PlainName
    target: dict[str, JsonValue]
    profiles: list[str] = Field(default_factory=list, max_length=20)
    role: Literal["both", "build", "measure"] = "both"
    cores: Annotated[int, Field(ge=1, le=100_000)]
    memory_bytes: Annotated[int, Field(ge=0, le=MAX_BIGINT)]
    tvm_version: TvmVersion
    #: LLVM's names of the CPU's vector features, and the arch of a GPU: what times must have those that its
    #: target needs.
    features: list[Annotated[str, Field(pattern=r"^[a-z0-9._-]{1,40}$")]] | None = Field(
        default=None, max_length=500
    )
    #: As uname names it: x86_64, aarch64; None: an older worker, which is not checked.
    machine: Annotated[str, Field(pattern=r"^[A-Za-z0-9_]{1,40}$")] | None = None
    facts: dict[str, JsonValue] = Field(default_factory=dict, max_length=200)


class JoinedWorker(_Response):
    worker_id: str
    target: dict[str, Any]
    target_key: str
    queues: list[str]
    broker_url: str | None
    heartbeat_secs: float


class Heartbeat(_Request):
    #: [[trial_id, attempt], ..]
    holding: list[Held] = Field(default_factory=list, max_length=10_000)
    stage_secs: StageSecs = Field(default_factory=dict, max_length=50)
    #: The device is slower than its own history; the worker takes nothing until it is well.
    quarantined: bool = False
    #: What is new of the device; added to the worker's facts by name.
    facts: dict[str, JsonValue] = Field(default_factory=dict, max_length=50)


class HeartbeatAnswer(_Response):
    #: Held trials to drop: their job stops, or they are no longer this attempt's.
    drop: list[tuple[int, int]]
    drain: bool
    #: Of the searches whose trials are held, by id: what cut-offs are reckoned from.
    best_latency_secs: dict[int, float]


class SelfTestKernels(_Response):
    #: Of the library, among the artifacts.
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    #: float32 numbers of a vector register.
    lanes: int = Field(ge=1, le=64)
    #: float32 numbers of one array of the copy.
    elements: int = Field(ge=1, le=1 << 28)
    #: Tasks of what takes all cores.
    cores: int = Field(ge=1, le=4096)


class WorkerView(_Response):
    id: str
    name: str
    host: str
    device: str
    device_class: str
    target: dict[str, Any]
    target_key: str
    role: str
    #: By database time: alive, stale, dead; or left.
    health: Literal["alive", "stale", "dead", "left"]
    state: str
    desired_state: str
    cores: int
    memory_bytes: int
    tvm_version: str
    facts: dict[str, Any]
    holding: list[list[int]]
    stage_secs: dict[str, float]
    started_at: datetime
    heartbeat_at: datetime
    silent_secs: float


class WorkerPage(_Response):
    workers: list[WorkerView]
    next_page_token: str | None


class Version(_Response):
    version: str
    api: Literal["v1"]
    schema_revision: str


class Health(_Response):
    status: Literal["ok"]


class Readiness(_Response):
    status: Literal["ready"]
    checks: dict[str, str]
