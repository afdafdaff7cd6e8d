"""Requests and responses of jobs, tasks and trials. Names and units are those of the rows; times are UTC."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from db.states import DesiredState, JobState, Outcome, Purpose, TaskState, TrialState

#: No control characters: a name is shown, logged and stored.
_PLAIN = r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029]*$"
PlainName = Annotated[str, Field(min_length=1, max_length=200, pattern=_PLAIN)]
MAX_BIGINT = 2**63 - 1
TargetRequest = Annotated[str, Field(min_length=1, max_length=200, pattern=_PLAIN)] | dict[str, JsonValue]


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Response(BaseModel):
    model_config = ConfigDict(frozen=True)


class SubmitJob(_Request):
    """A job: an IRModule as `tvm.ir.save_json` gives it, of TensorIR or Relax, a target, a budget."""

    module: Any = Field(description="JSON of tvm.ir.save_json(mod): as an object, or as a string")
    target: TargetRequest = Field(
        description="a profile's name, a TVM target tag, or a target as a JSON object"
    )
    name: PlainName | None = None
    max_trials: Annotated[int, Field(ge=1, le=1_000_000, strict=True)] | None = None
    max_trials_per_task: Annotated[int, Field(ge=1, le=1_000_000, strict=True)] | None = None
    priority: Annotated[int, Field(ge=-100, le=100, strict=True)] = 0
    seed: Annotated[int, Field(ge=0, le=MAX_BIGINT, strict=True)] = 0
    strategy: Literal["evolutionary", "random"] = "evolutionary"
    #: Our rules beside TVM's, or TVM's alone ("stock", also "post-order-apply"); a function in `spaces` has
    #: its own.
    space: Literal["post-order-apply", "stock", "tilefarm"] = "tilefarm"
    #: By function: {"traces": [..], "postprocs": [names], "mutators": {name: probability}}.
    spaces: dict[str, dict[str, Any]] = Field(default_factory=dict, max_length=500)
    #: By function; tasks without one weigh 1.
    weights: dict[str, Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False, strict=True)]] = Field(
        default_factory=dict, max_length=500
    )
    #: Of a Relax model: how its compile lowers it, and so which functions it will ask for (compile_relax).
    pipeline: Literal["compile_relax", "static_shape_tuning", "prepack", "as_is"] | None = None
    #: Of a Relax model: the parameters of `main` that its compile binds; their values need not travel.
    bound_params: list[Annotated[str, Field(min_length=1, max_length=300)]] = Field(
        default_factory=list, max_length=20_000
    )
    #: Of a Relax model: only tasks whose name contains one of these are tuned.
    op_names: list[PlainName] = Field(default_factory=list, max_length=100)
    #: Measure policy and search settings by name, and isolation_key.
    options: dict[str, JsonValue] = Field(default_factory=dict, max_length=64)


class ChangeJob(_Request):
    """What may change while a job lives."""

    max_trials: Annotated[int, Field(ge=1, le=1_000_000, strict=True)] | None = None
    priority: Annotated[int, Field(ge=-100, le=100, strict=True)] | None = None
    name: PlainName | None = None


class ContinueJob(_Request):
    """How much more a job that has ended may spend."""

    max_trials: Annotated[int, Field(ge=1, le=1_000_000, strict=True)]


class Warned(_Response):
    code: str
    function: str | None = None
    detail: str


class TargetView(_Response):
    name: str
    canonical: dict[str, Any]
    key: str


class TrialCounts(_Response):
    """submitted = queued + dispatched + done + failed + cancelled + other."""

    submitted: int = 0
    queued: int = 0
    dispatched: int = 0
    done: int = 0
    failed: int = 0
    cancelled: int = 0
    #: In a state that only a newer release of the farm knows.
    other: int = 0


class TaskView(_Response):
    id: int
    job_id: str
    name: str
    #: Structural hash of the workload, 16 hex digits.
    workload: str
    flops: float
    weight: float
    state: TaskState
    max_trials: int
    trials: TrialCounts
    outcomes: dict[Outcome, int]
    best_latency_secs: float | None
    untuned_latency_secs: float | None
    #: untuned / best.
    speedup: float | None
    gflops: float | None
    record_id: int | None
    exhausted: bool
    #: Why it ended before its budget was spent, where the job asked for that.
    stopped: str | None
    already_tuned: bool
    error: str | None
    args: list[dict[str, Any]]
    search_id: int


class JobSummary(_Response):
    """A job without its tasks."""

    id: str
    name: str
    owner: str
    state: JobState
    desired_state: DesiredState
    target: TargetView
    priority: int
    max_trials: int
    max_trials_per_task: int | None
    strategy: str
    seed: int
    options: dict[str, Any]
    trials: TrialCounts
    outcomes: dict[Outcome, int]
    #: Sum of weight * best latency over the tasks; None until every task has one.
    weighted_latency_secs: float | None
    untuned_weighted_latency_secs: float | None
    speedup: float | None
    eta_secs: float | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    error: str | None
    warnings: list[Warned]
    revision: int
    #: Seconds spent by stage, over the job's searches.
    stage_secs: dict[str, float]


class JobView(JobSummary):
    tasks: list[TaskView]


class SubmittedJob(JobView):
    estimated_secs: float


class JobPage(_Response):
    jobs: list[JobSummary]
    next_page_token: str | None


class TaskList(_Response):
    tasks: list[TaskView]


class TrialView(_Response):
    id: int
    job_id: str
    task_id: int
    search_id: int
    purpose: Purpose
    state: TrialState
    round: int
    trace_hash: str
    program_hash: str | None
    predicted_score: float | None
    attempt: int
    outcome: Outcome | None
    run_secs: list[float] | None
    latency_secs: float | None
    error: str | None
    stage_secs: dict[str, float] | None
    worker_id: str | None
    device_class: str | None
    tvm_version: str | None
    created_at: datetime
    done_at: datetime | None


class TrialDetail(TrialView):
    """A trial with its trace, where retention has kept it."""

    trace: Any


class TrialPage(_Response):
    trials: list[TrialView]
    next_page_token: str | None
