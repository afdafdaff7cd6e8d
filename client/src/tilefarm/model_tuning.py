"""`tilefarm.tune_relax`: stock's arguments, a whole model tuned on the service.

The model's tasks are extracted here, by the passes that its compile will run; only TensorIR functions travel,
never a weight. What cannot be tuned is left out and said.
"""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilefarm import module, stock, tune
from tilefarm.client import Client, Limits
from tilefarm.errors import ModuleError, ProblemError
from tilefarm.extraction import PIPELINES, ExtractedTask, extract
from tilefarm.jobs import Job

if TYPE_CHECKING:
    import httpx

    from tilefarm.database import RemoteDatabase

#: The names of more tasks than this would hide the cause.
_SHOWN = 5
_log = logging.getLogger("tilefarm")


def tune_relax(  # noqa: PLR0913 - stock's own list of arguments, and ours behind it
    mod: Any,
    params: Mapping[str, Any] | None,
    target: Any,
    work_dir: str | Path,
    max_trials_global: int,
    max_trials_per_task: int | None = None,
    op_names: Sequence[str] | None = None,
    *,
    num_trials_per_iter: int = stock.DEFAULT_BATCH_SIZE,
    builder: Any = "local",
    runner: Any = "local",
    database: Any = "json",
    cost_model: Any = "xgb",
    measure_callbacks: Any = "default",
    task_scheduler: Any = "gradient",
    space: Any = tune.DEFAULT_SPACE,
    strategy: Any = "evolutionary",
    seed: int | None = None,
    module_equality: str = "structural",
    special_space: Mapping[str, Any] | None = None,
    pipeline: str = "compile_relax",
    url: str | None = None,
    token: str | None = None,
    name: str | None = None,
    priority: int = 0,
    options: Mapping[str, Any] | None = None,
    transport: "httpx.BaseTransport | None" = None,
) -> "RemoteDatabase":
    """Tunes a Relax model on the service, and returns its records as a Database for `compile_relax`.

    Arguments up to `module_equality` are those of MetaSchedule's `tune_relax`, in its order and with its
    meaning: `params` are bound as constants of `main`, `op_names` picks the tasks whose name contains one of
    them. `special_space` gives tasks, by name, a space of their own; None skips one. `pipeline` is how the
    model will be compiled (tilefarm.extraction.PIPELINES): other passes ask for other functions. A task
    weighs how often the model calls it. The rest is as in `tune_tir`, errors included; ModuleError where
    nothing of the model can be tuned.
    """
    stock.refuse_what_cannot_travel(
        {
            "builder": builder,
            "runner": runner,
            "database": database,
            "cost_model": cost_model,
            "measure_callbacks": measure_callbacks,
            "task_scheduler": task_scheduler,
            "module_equality": module_equality,
        }
    )
    log = tune.log_file(work_dir)
    client = Client(url, token, transport=transport)
    tasks = tunable(mod, params, tune.tvm_target(target, client), pipeline=pipeline)
    job = _submit(
        client,
        _chosen(tasks, op_names, special_space or {}),
        target,
        Limits(max_trials=max_trials_global, max_trials_per_task=max_trials_per_task, priority=priority),
        space=space,
        special_space=special_space,
        fields={
            "name": name or _name_of(mod),
            "seed": seed or 0,
            "strategy": stock.strategy_name(strategy),
            "options": tune.job_options(options, batch_size=num_trials_per_iter),
        },
    )
    return tune.tuned(job, log, url=url, token=token, transport=transport)


def tunable(
    mod: Any, params: Mapping[str, Any] | None, target: Any, *, pipeline: str
) -> tuple[ExtractedTask, ...]:
    """The tasks of a model for a `tvm.target.Target`; what is not tuned is logged. Raises ModuleError."""
    if pipeline not in PIPELINES:
        raise ModuleError(f"there is no pipeline {pipeline!r}: it is one of {', '.join(PIPELINES)}")
    try:
        found = extract(_bound(mod, params), target, pipeline=pipeline, canonical=module.canonical)
    except (RuntimeError, ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
        raise ModuleError(f"TVM cannot lower the model as {pipeline} does: {error}") from error
    for part in found.not_tuned:
        _log.info("%s is not tuned (%s): %s", part.name, part.code, part.detail)
    tasks = tuple(task for task in found.tasks if not task.is_view)
    if not tasks:
        why = "; ".join(part.detail for part in found.not_tuned[:_SHOWN])
        raise ModuleError(f"the model has no function that can be tuned{': ' + why if why else ''}")
    return tasks


def _bound(mod: Any, params: Mapping[str, Any] | None) -> Any:
    import tvm
    from tvm import relax

    if isinstance(mod, relax.Function):
        mod = tvm.IRModule({"main": mod})
    if not isinstance(mod, tvm.IRModule):
        raise ModuleError(f"expected an IRModule or a relax.Function, not {type(mod).__name__}")
    return relax.transform.BindParams("main", dict(params))(mod) if params else mod


def _chosen(
    tasks: Sequence[ExtractedTask], op_names: Sequence[str] | None, special_space: Mapping[str, Any]
) -> dict[str, ExtractedTask]:
    """By name; as stock picks them."""
    chosen = {
        task.name: task
        for task in tasks
        if (not op_names or any(part in task.name for part in op_names))
        and special_space.get(task.name, task) is not None
    }
    if not chosen:
        names = ", ".join(task.name for task in tasks)
        raise ModuleError(f"op_names and special_space leave no task; the model has {names}")
    return chosen


def _submit(
    client: Client,
    tasks: dict[str, ExtractedTask],
    target: Any,
    limits: Limits,
    *,
    space: Any,
    special_space: Mapping[str, Any] | None,
    fields: Mapping[str, Any],
) -> Job:
    """One job on all tasks that the service takes: a function that it refuses does not cost the others."""
    import tvm

    while True:
        mod = tvm.IRModule({name: task.func.with_attr("global_symbol", name) for name, task in tasks.items()})
        travelling = tune.travelling(
            mod, target, client=client, space=space, special_space=special_space, seed=fields["seed"]
        )
        weights = {name: task.weight for name, task in tasks.items()}
        try:
            return client.submit(
                travelling["module"],
                tune.travelling_target(target),
                limits,
                space=travelling["space"],
                spaces=travelling["spaces"],
                weights=weights,
                **fields,
            )
        except ProblemError as error:
            refused = {
                cause.get("function"): cause for cause in error.errors if cause.get("function") in tasks
            }
            if not refused or len(refused) == len(tasks):
                raise
            for name, cause in refused.items():
                _log.warning("%s is not tuned (%s): %s", name, cause.get("code"), cause.get("detail"))
            tasks = {name: task for name, task in tasks.items() if name not in refused}


def _name_of(mod: Any) -> str:
    """Of the job: the model's entry function."""
    symbol = mod.attrs.get("global_symbol") if getattr(mod, "attrs", None) else None
    return str(symbol)[:200] if symbol is not None else "model"
