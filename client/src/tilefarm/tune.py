"""`tilefarm.tune_tir`: stock's arguments, run on the service; and `submit`, which does not wait.

Space generators and schedule functions run here and travel as traces (tilefarm.space). What cannot travel is
refused by name (tilefarm.stock).
"""

import contextlib
import json
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from tilefarm import module, pairs, space, stock
from tilefarm import target as targets
from tilefarm.client import Client, Limits
from tilefarm.connect import connect
from tilefarm.errors import ModuleError, ServiceError, TargetError
from tilefarm.jobs import Job
from tilefarm.progress import ProgressLine, describe

if TYPE_CHECKING:
    import httpx

    from tilefarm.database import RemoteDatabase

DEFAULT_SPACE, NAMED_SPACES = space.DEFAULT, space.NAMED


def tune_tir(  # noqa: PLR0913 - stock's own list of arguments, and ours behind it
    mod: Any,
    target: Any,
    work_dir: str | Path,
    max_trials_global: int,
    *,
    max_trials_per_task: int | None = None,
    num_trials_per_iter: int = stock.DEFAULT_BATCH_SIZE,
    builder: Any = "local",
    runner: Any = "local",
    database: Any = "json",
    cost_model: Any = "xgb",
    measure_callbacks: Any = "default",
    task_scheduler: Any = "gradient",
    space: Any = DEFAULT_SPACE,
    strategy: Any = "evolutionary",
    num_tuning_cores: Any = "physical",  # noqa: ARG001 - no core of this host tunes
    seed: int | None = None,
    module_equality: str = "structural",
    special_space: Mapping[str, Any] | None = None,
    post_optimization: bool | None = False,
    url: str | None = None,
    token: str | None = None,
    name: str | None = None,
    priority: int = 0,
    options: Mapping[str, Any] | None = None,
    transport: "httpx.BaseTransport | None" = None,
) -> "RemoteDatabase":
    """Tunes every PrimFunc of `mod` on the service, and returns its records as a Database.

    Arguments up to `post_optimization` are those of `tvm.s_tir.meta_schedule.tune_tir`, in its order and with
    its meaning. `target` may also be a profile name of the service, `space` also one of its design spaces
    ("stock"; "tilefarm" is what it takes where nothing is said). `seed` None means 0, so that equal requests
    share their work. `options` are the job's, by name: `{"patience": 96}` ends a task that does not improve
    any more before its budget is spent. Progress goes to stderr and to `logs/tilefarm.log` in `work_dir`.
    Ctrl-C cancels it.
    Raises CannotTravelError, ModuleError, TargetError, JobFailedError, ServiceError, TvmPairError.
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
            "post_optimization": post_optimization,
        }
    )
    log = log_file(work_dir)
    client = Client(url, token, transport=transport)
    job = submit(
        mod,
        target,
        max_trials_global,
        client=client,
        max_trials_per_task=max_trials_per_task,
        batch_size=num_trials_per_iter,
        space=space,
        special_space=special_space,
        strategy=strategy,
        seed=seed,
        name=name,
        priority=priority,
        options=options,
    )
    return tuned(job, log, url=url, token=token, transport=transport)


def log_file(work_dir: str | Path) -> Path:
    """Its directory is made before there is a job, which would run on if that failed. Raises OSError."""
    log = Path(work_dir) / "logs" / "tilefarm.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    return log


def tuned(
    job: Job,
    log: Path,
    *,
    url: str | None,
    token: str | None,
    transport: "httpx.BaseTransport | None",
) -> "RemoteDatabase":
    """Follows a job to its end; then the Database that has its records."""
    _follow(job, log, sys.stderr)
    found = connect(url, token, transport=transport)
    found.refresh()  # a compile before this one may have left a miss in the cache
    return found


def submit(  # noqa: PLR0913 - one keyword per field of a job
    mod: Any,
    target: Any,
    max_trials: int,
    *,
    client: Client | None = None,
    max_trials_per_task: int | None = None,
    batch_size: int = stock.DEFAULT_BATCH_SIZE,
    space: Any = DEFAULT_SPACE,
    special_space: Mapping[str, Any] | None = None,
    strategy: str = "evolutionary",
    seed: int | None = None,
    name: str | None = None,
    priority: int = 0,
    options: Mapping[str, Any] | None = None,
) -> Job:
    """A job on the PrimFuncs of `mod`; it returns at once. Errors as of `tune_tir`."""
    strategy = stock.strategy_name(strategy)
    pairs.require()
    client = client or Client()
    fields = travelling(mod, target, client=client, space=space, special_space=special_space, seed=seed or 0)
    return client.submit(
        fields["module"],
        travelling_target(target),
        Limits(max_trials=max_trials, max_trials_per_task=max_trials_per_task, priority=priority),
        name=name or ", ".join(name for name, _ in module.prim_funcs(mod))[:200],
        seed=seed or 0,
        strategy=strategy,
        space=fields["space"],
        spaces=fields["spaces"],
        options=job_options(options, batch_size=batch_size),
    )


def job_options(options: Mapping[str, Any] | None, *, batch_size: int) -> dict[str, Any] | None:
    """What was asked for; stock's own batch size means the service's."""
    own = {} if batch_size == stock.DEFAULT_BATCH_SIZE else {"batch_size": batch_size}
    return {**own, **(options or {})} or None


def travelling(
    mod: Any,
    target: Any,
    *,
    client: Client,
    space: Any,
    special_space: Mapping[str, Any] | None,
    seed: int,
) -> dict[str, Any]:
    """{"module", "space", "spaces"} of a job on the PrimFuncs that are to be tuned, as they travel."""
    named = space if isinstance(space, str) and space in NAMED_SPACES else None
    functions: dict[str, Any] = {}
    spaces: dict[str, Any] = {}
    special = special_space or {}
    for name, func in module.prim_funcs(mod):
        chosen = special.get(name, space)
        if chosen is None:
            continue
        functions[name] = func
        if name not in special and named is not None:
            continue
        found = _space_of(
            chosen,
            func,
            lambda: tvm_target(target, client),
            argument=f"special_space[{name!r}]" if name in special else "space",
            seed=seed,
        )
        if found is not None:
            spaces[name] = found
    if not functions:
        raise ModuleError("there is no PrimFunc to tune in the module")
    return {"module": json.loads(_module_json(functions)), "space": named, "spaces": spaces or None}


def _space_of(chosen: Any, func: Any, target: Callable[[], Any], *, argument: str, seed: int) -> Any:
    if isinstance(chosen, str) and chosen == DEFAULT_SPACE:
        return None
    # A copy of its own: TVM's Schedule changes a shared body in place once nothing else holds its module.
    own = module.copy_of(module.canonical(func))
    return space.travelling(chosen, own, target(), argument=argument, seed=seed)


def _module_json(functions: Mapping[str, Any]) -> str:
    import tvm

    return module.to_json(tvm.IRModule(dict(functions)))


def travelling_target(target: Any) -> Any:
    """A name (profile or tag) as it is, anything else in canonical form. Raises TargetError."""
    if isinstance(target, str) and not target.lstrip().startswith("{"):
        return target
    if isinstance(target, str):
        target = _parsed(target)
    if isinstance(target, Mapping) and "tag" not in target:
        return targets.canonical(target)
    return targets.of_tvm(tvm_target(target, None))


def tvm_target(target: Any, client: Client | None) -> Any:
    """The tvm Target of a dict, tag, JSON text, or (where there is a client) profile name."""
    pairs.require()
    from tvm.target import Target

    if isinstance(target, Target):
        return target
    if isinstance(target, str) and " " in target.strip() and "{" not in target:
        said = f"{target!r:.80} is no target: it is a profile (`tilefarm list targets`), a tag, or JSON"
        raise TargetError("bad_target", said + ' like {"kind": "llvm", "mcpu": "znver4", "num-cores": 8}')
    if isinstance(target, str) and client is not None and "/" not in target and "{" not in target:
        target = client.canonical_target(target)
    try:
        return Target(dict(target) if isinstance(target, Mapping) else target)
    except (ValueError, TypeError, RuntimeError) as error:
        raise TargetError("unknown_target", f"TVM takes no target {target!r:.80}: {error}") from error


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise TargetError("bad_target", f"the target is not JSON: {error}") from error


def _follow(job: Job, log: Path, stream: TextIO) -> None:
    """Shows and logs each snapshot until the job has ended; Ctrl-C cancels it."""
    line = ProgressLine(stream, label=str(job.view.get("name") or job.id))
    with log.open("a", encoding="utf-8") as file:
        file.write(f"{_now()} job {job.id} {job.url}\n")
        try:
            for view in job.watch():
                line.show(view, final=job.ended)
                file.write(f"{_now()} {describe(view)}\n")
                file.flush()
        except KeyboardInterrupt:
            with contextlib.suppress(ServiceError):
                job.cancel()
                file.write(f"{_now()} cancelled from here\n")
            raise
        finally:
            line.end()
    job.require_success()


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
