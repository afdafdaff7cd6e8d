"""A submission, from body to rows: the checks of the first wall, the intake child, then one transaction.

No child is waited for inside the transaction: workloads are compared before it, and compared again where
another submission stored one of the same hash meanwhile.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Engine
from sqlalchemy.orm import Session

from checks.space import named_space
from checks.trace import TraceError, check_trace
from db.jobs import NewJob, insert_job
from db.session import reading, transaction
from db.targets import store_target, workers_alive
from db.tasks import NewTask, SearchKey, find_or_make_search, insert_task
from db.workloads import NewWorkload, note_anchor, same_hash, store_workload
from services.api.errors import InvalidError, UnavailableError
from services.api.intake import Intake, IntakeChild, TakenFunction
from services.api.options import JobOptions, check_ranges, read_options
from services.api.schemas import SubmitJob
from services.api.sender import RacedError, Sender, claim_key, earlier_job
from services.api.settings import ApiSettings
from services.api.submitted_module import submitted_module
from services.api.targets import NamedTarget, resolve

_MAX_RACES = 5
_MAX_TRACES = 64
_MAX_NAMES = 32
#: What a task's row has room for.
_MAX_TASK_NAME_CHARS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """What a function equals: a stored workload, an earlier function of the module, or nothing yet."""

    workload_id: int | None = None
    #: Index of the earlier function.
    twin: int | None = None
    #: Workloads of its hash before it, where it equals none.
    ordinal: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Taken:
    """All that the transaction writes."""

    target: NamedTarget
    tvm_version: str
    functions: list[TakenFunction]
    #: About parts of a model that no function stands for.
    warnings: list[dict[str, Any]]
    known: list[_Known]
    options: JobOptions


def submit(
    request: SubmitJob, sender: Sender, *, engine: Engine, intake: Intake, settings: ApiSettings
) -> tuple[str, bool]:
    """The job's id, and whether it is new: a retry under the same key makes no second. Raises ApiError."""
    earlier = earlier_job(engine, sender)
    if earlier is not None:
        return earlier, False
    options = read_options(request.options)
    max_trials = request.max_trials or settings.default_max_trials
    require_budget(max_trials, settings)
    submitted = submitted_module(request)
    _check_spaces(request.spaces)
    with intake.open(for_model=submitted.lowering is not None) as child:
        target = resolve(engine, request.target, child)
        if submitted.lowering is None:
            module = child.module(submitted.text, request.spaces)
        else:
            module = child.model(submitted.text, request.spaces, target.canonical, submitted.lowering)
        _check_functions(request, module.functions, settings)
        for _ in range(_MAX_RACES):
            check_ranges(
                options,
                [(item.parameters, [arg["dtype"] for arg in item.args]) for item in module.functions],
            )
            taken = _Taken(
                target=target,
                tvm_version=module.tvm_version,
                functions=module.functions,
                warnings=module.warnings,
                known=_compare(engine, module.functions, module.tvm_version, child),
                options=options,
            )
            try:
                return _write(request, sender, taken, max_trials, engine=engine, settings=settings), True
            except RacedError:
                earlier = earlier_job(engine, sender)
                if earlier is not None:
                    return earlier, False
    raise UnavailableError("contended", "other submissions of the same workloads are being stored")


def require_budget(max_trials: int | None, settings: ApiSettings) -> None:
    """Raises InvalidError above this service's limit."""
    if max_trials is not None and max_trials > settings.max_trials:
        raise InvalidError.of("budget_out_of_range", f"max_trials is at most {settings.max_trials}")


def _check_spaces(spaces: Mapping[str, Mapping[str, Any]]) -> None:
    for function, space in spaces.items():
        traces = space.get("traces")
        if not isinstance(traces, list) or not 1 <= len(traces) <= _MAX_TRACES:
            raise InvalidError.of(
                "bad_space", f"a design space has 1 to {_MAX_TRACES} traces", function=function
            )
        for names in (space.get("postprocs") or [], space.get("mutators") or {}):
            if not isinstance(names, (list, dict)) or len(names) > _MAX_NAMES:
                raise InvalidError.of(
                    "bad_space", "postprocs is a list, mutators an object of names", function=function
                )
        for trace in traces:
            try:
                check_trace(trace)
            except TraceError as error:
                raise InvalidError.of("bad_space", error.detail, function=function) from None


def _check_functions(request: SubmitJob, functions: list[TakenFunction], settings: ApiSettings) -> None:
    names = {function.name for function in functions}
    if len(functions) > settings.max_functions:
        raise InvalidError.of("too_many_functions", f"a job has at most {settings.max_functions} functions")
    for name in sorted((request.weights.keys() | request.spaces.keys()) - names):
        raise InvalidError.of(
            "unknown_function", "the module holds no function of this name", function=name[:300]
        )


def _compare(
    engine: Engine, functions: list[TakenFunction], tvm_version: str, child: IntakeChild
) -> list[_Known]:
    """Equal bytes are equal; else TVM decides. Functions of one module may be one workload."""
    known: list[_Known] = []
    for index, function in enumerate(functions):
        with reading(engine) as session:
            stored = same_hash(session, tvm_version=tvm_version, shash=function.shash)
        equal = _first_equal(function, [found.module for found in stored], child)
        if equal is not None:
            known.append(_Known(workload_id=stored[equal].id))
            continue
        fresh = [
            before
            for before in range(index)
            if functions[before].shash == function.shash
            and known[before].workload_id is None
            and known[before].twin is None
        ]
        twin = _first_equal(function, [functions[before].module for before in fresh], child)
        if twin is not None:
            known.append(_Known(twin=fresh[twin]))
        else:
            known.append(_Known(ordinal=len(stored) + len(fresh)))
    return known


def _first_equal(function: TakenFunction, modules: list[str], child: IntakeChild) -> int | None:
    if function.module in modules:
        return modules.index(function.module)
    return next((i for i, module in enumerate(modules) if child.equal(module, function.module)), None)


def _write(
    request: SubmitJob,
    sender: Sender,
    taken: _Taken,
    max_trials: int,
    *,
    engine: Engine,
    settings: ApiSettings,
) -> str:
    with transaction(engine) as session:
        target = store_target(session, taken.target.canonical, key=taken.target.key)
        workload_ids = _store_workloads(session, taken)
        alive = workers_alive(session, dead_after_secs=settings.dead_after_secs).get(target.id, 0)
        job_id = _insert_job(
            session, request, sender, taken, target_id=target.id, max_trials=max_trials, alive=alive
        )
        _insert_tasks(session, request, taken, workload_ids, job_id=job_id, target_id=target.id)
        claim_key(session, sender, job_id)
    return job_id


def _insert_job(
    session: Session,
    request: SubmitJob,
    sender: Sender,
    taken: _Taken,
    *,
    target_id: int,
    max_trials: int,
    alive: int,
) -> str:
    return insert_job(
        session,
        NewJob(
            name=request.name or taken.functions[0].name[:200],
            owner=sender.name,
            target_id=target_id,
            target_name=taken.target.name,
            priority=request.priority,
            max_trials=max_trials,
            max_trials_per_task=request.max_trials_per_task,
            strategy=request.strategy,
            seed=request.seed,
            options=request.options,
            warnings=_warnings(taken, alive=alive),
        ),
    )


def _insert_tasks(
    session: Session,
    request: SubmitJob,
    taken: _Taken,
    workload_ids: list[int],
    *,
    job_id: str,
    target_id: int,
) -> None:
    """A task for each function, in the module's order, attached to its search."""
    for ordinal, (function, workload_id) in enumerate(zip(taken.functions, workload_ids, strict=True)):
        key = _search_key(request, taken, function, workload_id, target_id)
        task = NewTask(
            job_id=job_id,
            ordinal=ordinal,
            # Passes name a function by all that they have fused into it.
            name=function.name[:_MAX_TASK_NAME_CHARS],
            weight=request.weights.get(function.name, function.weight),
            workload_id=workload_id,
            search_id=find_or_make_search(session, key),
        )
        insert_task(session, task)


def _store_workloads(session: Session, taken: _Taken) -> list[int]:
    ids: list[int] = []
    for function, known in zip(taken.functions, taken.known, strict=True):
        workload_id = known.workload_id if known.twin is None else ids[known.twin]
        if workload_id is None:
            new = NewWorkload(
                tvm_version=taken.tvm_version,
                shash=function.shash,
                module=function.module,
                flops=function.flops,
                args=function.args,
                anchor_hash=function.anchor_hash,
            )
            workload_id = store_workload(session, new, known=known.ordinal)
            if workload_id is None:
                raise RacedError
        elif known.workload_id is not None:
            note_anchor(session, workload_id, function.anchor_hash)
        ids.append(workload_id)
    return ids


def _search_key(
    request: SubmitJob, taken: _Taken, function: TakenFunction, workload_id: int, target_id: int
) -> SearchKey:
    space, space_hash = function.space, function.space_hash
    if space is None:
        space, space_hash = named_space(request.space)
    return SearchKey(
        workload_id=workload_id,
        target_id=target_id,
        target_key=taken.target.key,
        tvm_version=taken.tvm_version,
        space=space,
        space_hash=space_hash,
        strategy=request.strategy,
        seed=request.seed,
        policy=dataclasses.asdict(taken.options.policy_of(function.parameters)),
        options=taken.options.search,
        isolation_key=taken.options.isolation_key,
    )


def _warnings(taken: _Taken, *, alive: int) -> list[dict[str, Any]]:
    warnings = [warning for function in taken.functions for warning in function.warnings] + taken.warnings
    if not alive:
        warnings.append(no_worker(taken.target.name))
    return warnings


def no_worker(target_name: str) -> dict[str, Any]:
    """The warning that a job waits."""
    detail = f"no worker for {target_name} is alive and well; the job waits until one is"
    return {"code": "no_worker", "function": None, "detail": detail}
