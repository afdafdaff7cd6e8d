"""A design space of this process as traces: the user's code runs here, only what it recorded travels.

Stock TVM's meaning is kept: a plain callable brings no postprocs and no mutators, `ScheduleFn(fn)` brings the
target's defaults, a generator with explicit ones brings exactly those. Nothing is sent from here.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from tilefarm.errors import CannotTravelError, TraceError
from tilefarm.target import plain
from tilefarm.trace_check import check_trace

#: The service's default space; it needs no traces.
DEFAULT = "post-order-apply"
#: Design spaces that the service knows by name, for a whole job.
NAMED = frozenset({"stock", "tilefarm"})
#: TVM's parameter of MutateParallel that the service uses; the field itself is not readable from Python.
_STOCK_PARALLEL = "max_jobs_per_core=16"
#: Names of the target's own default rules, as stock's SpaceGenerator.create takes them.
_RULE_KINDS = frozenset({"llvm", "cuda", "cuda-tensorcore", "hexagon"})


def travelling(space: Any, module: Any, target: Any, *, argument: str, seed: int = 0) -> Any:
    """The JSON form of a space for one workload, or None for the service's default.

    `module` is the IRModule {main: func} and `target` the tvm Target. Raises CannotTravelError naming
    `argument` where something of it means nothing elsewhere.
    """
    if isinstance(space, str):
        return _named(space, module, target, argument=argument, seed=seed)
    if _is_generator(space):
        return _of_generator(space, module, target, argument=argument, seed=seed)
    if isinstance(space, list | tuple):
        return _checked(_traces_of(list(space), argument), [], {}, argument)
    if callable(space):
        return _checked(_traces_of(_called(space, module, seed), argument), [], {}, argument)
    raise CannotTravelError(argument, f"a {type(space).__name__} is no design space")


def trace_json(schedule: Any) -> Any:
    """A schedule's trace as plain JSON."""
    return plain(schedule.trace.as_json())


def _named(name: str, module: Any, target: Any, *, argument: str, seed: int) -> Any:
    if name == DEFAULT:
        return None
    if name in NAMED:
        raise CannotTravelError(argument, f"{name!r} is for a whole job: give it as its `space`")
    if name not in _RULE_KINDS:
        raise CannotTravelError(argument, f"{name!r} is no space that can be named alone")
    from tvm.s_tir.meta_schedule.space_generator import SpaceGenerator

    generator = SpaceGenerator.create(name)
    return _of_generator(generator, module, target, argument=argument, seed=seed)


def _is_generator(space: Any) -> bool:
    from tvm.s_tir.meta_schedule.space_generator import PySpaceGenerator, SpaceGenerator

    return isinstance(space, SpaceGenerator | PySpaceGenerator)


def _of_generator(space: Any, module: Any, target: Any, *, argument: str, seed: int) -> Any:
    from tvm.s_tir.meta_schedule.space_generator import ScheduleFn

    # What the generator itself says, before a TuneContext fills in the target's defaults.
    postprocs, mutators = space.postprocs, space.mutator_probs
    if isinstance(space, ScheduleFn):
        schedules = list(space.generate_design_space(module))
    else:
        schedules = _generated(space, module, target, seed)
    names = None if postprocs is None else [_postproc(item, argument) for item in postprocs]
    weights = None if mutators is None else _mutators(mutators, argument)
    return _checked(_traces_of(schedules, argument), names, weights, argument)


def _generated(space: Any, module: Any, target: Any, seed: int) -> list[Any]:
    """Rules need a TuneContext, which loads TVM's tensor intrinsics once (some seconds)."""
    from tvm.s_tir.meta_schedule import TuneContext

    context = TuneContext(
        mod=module,
        target=target,
        space_generator=space.clone(),
        task_name="main",
        num_threads=1,
        rand_state=max(seed, 1),
    )
    return list(context.generate_design_space())


def _called(function: Callable[[Any], Any], module: Any, seed: int) -> list[Any]:
    """As TVM's ScheduleFn calls it: on a traced schedule; it may answer nothing, one schedule, or several."""
    import tvm

    schedule = tvm.s_tir.Schedule(module, seed=max(seed, 1), debug_mask="all")
    answer = function(schedule)
    if answer is None:
        return [schedule]
    return list(answer) if isinstance(answer, list | tuple) else [answer]


def _traces_of(schedules: list[Any], argument: str) -> list[Any]:
    import tvm

    if not schedules:
        raise CannotTravelError(argument, "it yields no schedule")
    for schedule in schedules:
        if not isinstance(schedule, tvm.s_tir.Schedule):
            raise CannotTravelError(argument, f"it yields a {type(schedule).__name__}, not a schedule")
        if schedule.trace is None:
            raise CannotTravelError(argument, "it yields a schedule that kept no trace")
    return [trace_json(schedule) for schedule in schedules]


def _checked(
    traces: list[Any], postprocs: list[str] | None, mutators: Mapping[str, float] | None, argument: str
) -> dict[str, Any]:
    """Absent names mean the target's defaults, empty ones mean none."""
    for found in traces:
        try:
            check_trace(found)
        except TraceError as error:
            raise CannotTravelError(argument, f"its trace is not one the service takes: {error}") from error
    space: dict[str, Any] = {"traces": traces}
    if postprocs is not None:
        space["postprocs"] = postprocs
    if mutators is not None:
        space["mutators"] = dict(mutators)
    return space


def _postproc(item: Any, argument: str) -> str:
    from tvm.s_tir.meta_schedule import postproc

    name = type(item).__name__
    if getattr(postproc, name, None) is not type(item) or name.startswith(("Py", "_Py")):
        raise CannotTravelError(argument, f"the postproc {name} is code of this process")
    return name


def _mutators(weights: Mapping[Any, Any], argument: str) -> dict[str, float]:
    from tvm.s_tir.meta_schedule import mutator

    result: dict[str, float] = {}
    for item, weight in weights.items():
        name = type(item).__name__
        if getattr(mutator, name, None) is not type(item) or name.startswith(("Py", "_Py")):
            raise CannotTravelError(argument, f"the mutator {name} is code of this process")
        parameters = re.search(r"\((.*)\)", str(item))
        if parameters and parameters[1] != _STOCK_PARALLEL:
            raise CannotTravelError(argument, f"the mutator {item} has other parameters than stock's")
        result[name] = float(plain(weight))
    return result
