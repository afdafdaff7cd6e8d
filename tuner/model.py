"""A submitted Relax model taken apart into workloads, with what each weighs and what cannot be tuned.

It runs in the validator child: lowering a model compiles and runs what can be folded. It searches nothing.
"""

import json
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from checks.graph import GraphError, check_module_json
from tuner.errors import WorkloadError
from tuner.extraction import PIPELINES, ExtractedTask, Extraction, NotTuned, extract
from tuner.module import Workload, canonical_module, load_module, workload_of
from tuner.trace import TVM_ERRORS, brief
from tuner.tvm_light import load_tvm
from tuner.weights import bind_zeros, unfold_zeros

#: Causes that an error without any task names.
_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelTask:
    workload: Workload
    func: Any
    #: How often the model calls it.
    weight: int


def model_tasks(
    text: str,
    target: Any,
    *,
    pipeline: str,
    bound_params: Collection[str] = (),
    op_names: Collection[str] = (),
) -> tuple[list[ModelTask], list[NotTuned]]:
    """Tasks by name, and the model's parts that none stands for.

    `bound_params` are the parameters of `main` that the compile binds; `op_names` picks the tasks whose name
    contains one of them. Raises WorkloadError no_tunable_function, symbolic_shape, not_lowered,
    unknown_parameter, not_an_ir_module.
    """
    found = _extracted(text, target, pipeline, bound_params)
    not_tuned = list(found.not_tuned)
    tasks = []
    for task in found.tasks:
        if op_names and not any(part in task.name for part in op_names):
            continue
        taken = _taken(task)
        if isinstance(taken, NotTuned):
            not_tuned.append(taken)
        else:
            tasks.append(taken)
    if not tasks:
        raise _nothing(not_tuned, found)
    return tasks, not_tuned


def _extracted(text: str, target: Any, pipeline: str, bound_params: Collection[str]) -> Extraction:
    tvm = load_tvm()
    if pipeline not in PIPELINES:
        raise WorkloadError(f"there is no pipeline {pipeline!r}", code="not_lowered")
    try:
        mod = bind_zeros(unfold_zeros(load_module(text)), bound_params)
        return extract(mod, tvm.target.Target(target), pipeline=pipeline, canonical=canonical_module)
    except TVM_ERRORS as error:
        detail = f"TVM cannot lower the model as {pipeline} does: {brief(error)}"
        raise WorkloadError(detail, code="not_lowered") from error


def _taken(task: ExtractedTask) -> ModelTask | NotTuned:
    """What the passes made is held to the same walls as what a client sends."""
    if task.is_view:
        detail = f"a compile makes a view of {task.name} and never runs it"
        return NotTuned(name=task.name, code="becomes_view", detail=detail)
    try:
        workload = workload_of(task.name, task.func)
        check_module_json(json.loads(workload.module))
    except (WorkloadError, GraphError) as error:
        return NotTuned(name=task.name, code=error.code, detail=error.detail)
    return ModelTask(workload=workload, func=task.func, weight=task.weight)


def _nothing(not_tuned: list[NotTuned], found: Extraction) -> WorkloadError:
    if found.tasks and not not_tuned:
        names = ", ".join(task.name for task in found.tasks[:_SHOWN])
        return WorkloadError(f"op_names picks no task; the model has {names}", code="no_tunable_function")
    codes = {part.code for part in not_tuned}
    code = "symbolic_shape" if codes == {"symbolic_shape"} else "no_tunable_function"
    why = "; ".join(part.detail for part in not_tuned[:_SHOWN]) or "it calls no TensorIR function"
    return WorkloadError(f"the model has no function that can be tuned: {why}", code=code)
