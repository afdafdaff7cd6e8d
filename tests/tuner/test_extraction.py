"""What is extracted from a model is what its compile asks a database for: no key more, none less."""

from collections.abc import Callable
from typing import Any

import pytest
import tvm
from tvm import relax
from tvm.s_tir.meta_schedule.relax_integration import compile_relax
from tvm.target import Target

from examples.mixture import mixture
from examples.models import models
from tests.tuner.recording import RecordingDatabase
from tuner.extraction import extract
from tuner.module import canonical_module, structural_hash
from tuner.weights import bind_zeros

TARGET = {"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 2}


def asked_by_compile_relax(mod: Any, target: Target) -> RecordingDatabase:
    database = RecordingDatabase()
    compile_relax(database, mod, target, params=None)
    return database


def asked_by_static_shape_tuning(mod: Any, target: Target) -> RecordingDatabase:
    return _asked_by_pipeline(mod, target, prepack=False)


def asked_by_prepack(mod: Any, target: Target) -> RecordingDatabase:
    return _asked_by_pipeline(mod, target, prepack=True)


def _asked_by_pipeline(mod: Any, target: Target, *, prepack: bool) -> RecordingDatabase:
    # Once the functions are packed: what stands before is the apply pass of zero_pipeline.
    database = RecordingDatabase(length=0)
    pipeline = relax.get_pipeline(
        "static_shape_tuning", total_trials=0, target=target, cpu_weight_prepack=prepack
    )
    with target, database, tvm.transform.PassContext(opt_level=3):
        pipeline(mod)
    return database


def asked_as_it_is(mod: Any, target: Target) -> RecordingDatabase:
    database = RecordingDatabase()
    with target, database:
        relax.transform.MetaScheduleApplyDatabase()(mod)
    return database


CONSUMERS: dict[str, Callable[[Any, Target], RecordingDatabase]] = {
    "compile_relax": asked_by_compile_relax,
    "static_shape_tuning": asked_by_static_shape_tuning,
    "prepack": asked_by_prepack,
    "as_is": asked_as_it_is,
}


def extracted(mod: Any, pipeline: str) -> Any:
    return extract(mod, Target(TARGET), pipeline=pipeline, canonical=canonical_module)


def keys(mod: Any, pipeline: str) -> set[tuple[str, str]]:
    target = str(Target(TARGET).export())
    tasks = extracted(mod, pipeline).tasks
    assert len({task.name for task in tasks}) == len(tasks)
    return {(structural_hash(canonical_module(task.func)), target) for task in tasks}


def keys_of_uncalled(mod: Any, pipeline: str) -> set[tuple[str, str]]:
    """An apply pass asks for functions that nothing calls, too: packing leaves the unpacked one behind."""
    names = [part.name for part in extracted(mod, pipeline).not_tuned if part.code == "not_called"]
    target = str(Target(TARGET).export())
    return {(structural_hash(canonical_module(mod[name])), target) for name in names}


@pytest.mark.parametrize("pipeline", list(CONSUMERS))
@pytest.mark.parametrize("name", ["mlp", "linear", "linear unbound", "conv_bn", "cnn", "mixture"])
def test_the_keys_are_those_that_the_compile_asks_for(name: str, pipeline: str) -> None:
    if name == "mixture":
        mod = mixture()
    else:
        model = models()[name.removesuffix(" unbound")]()
        mod = model.mod if name.endswith("unbound") else model.bound()
    asked = CONSUMERS[pipeline](mod, Target(TARGET)).asked
    assert keys(mod, pipeline) | keys_of_uncalled(mod, pipeline) == asked
    # Operators that no pass has lowered are nobody's task.
    assert asked or (pipeline == "as_is" and name in ("mlp", "linear", "linear unbound", "conv_bn"))


def test_the_pipelines_give_different_keys_where_batch_norm_is_taken_apart_or_weights_are_packed() -> None:
    mod = models()["conv_bn"]().bound()
    keys_of_conv = {
        structural_hash(canonical_module(extracted(mod, pipeline).tasks[0].func))
        for pipeline in ("compile_relax", "static_shape_tuning", "prepack")
    }
    assert len(keys_of_conv) == 3


@pytest.mark.parametrize("name", ["mlp", "linear", "conv_bn"])
@pytest.mark.parametrize("pipeline", ["compile_relax", "static_shape_tuning"])
def test_zeros_in_place_of_the_weights_change_no_key(name: str, pipeline: str) -> None:
    model = models()[name]()
    zeroed = bind_zeros(model.mod, model.params)
    assert keys(zeroed, pipeline) == keys(model.bound(), pipeline)


def test_an_unbound_transposed_weight_costs_a_task() -> None:
    model = models()["linear"]()
    assert [task.name for task in extracted(model.mod, "compile_relax").tasks] == [
        "fused_matmul_add",
        "transpose",
    ]
    assert [task.name for task in extracted(model.bound(), "compile_relax").tasks] == ["fused_matmul_add"]


def test_a_task_weighs_what_it_is_called_and_equal_functions_are_one_task() -> None:
    tasks = {task.name: task for task in extracted(models()["transformer"]().bound(), "compile_relax").tasks}
    # Query, key and value are one kernel; the two layer norms another.
    assert tasks["fused_matmul_add"].weight == 3
    assert tasks["layer_norm"].weight == 2
    assert sum(task.weight for task in tasks.values()) == 15


def test_what_the_compile_makes_a_view_of_is_marked() -> None:
    tasks = extracted(models()["conv_bn"]().bound(), "compile_relax").tasks
    assert [task.name for task in tasks if task.is_view] == ["reshape"]


def test_functions_outside_the_module_are_listed_as_not_tuned() -> None:
    found = extracted(mixture(), "compile_relax")
    assert [(task.name, task.weight) for task in found.tasks] == [("linear0", 1)]
    assert [(part.name, part.code) for part in found.not_tuned] == [
        ("env.linear", "external_call"),
        ("env.relu", "external_call"),
    ]


def test_a_dynamic_shape_is_no_task_and_says_so() -> None:
    n = tvm.tirx.Var("n", "int64")
    x = relax.Var("x", relax.TensorType((n, 16), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            out = builder.emit_output(relax.op.nn.relu(x))
        builder.emit_func_output(out)
    found = extracted(builder.get(), "compile_relax")
    assert found.tasks == ()
    assert [(part.name, part.code) for part in found.not_tuned] == [("relu", "symbolic_shape")]


def test_a_function_that_nobody_calls_is_no_task() -> None:
    mod = mixture()
    mod["spare"] = mod["linear0"].with_attr("global_symbol", "spare")
    found = extracted(mod, "as_is")
    assert [task.name for task in found.tasks] == ["linear0"]
    assert ("spare", "not_called") in [(part.name, part.code) for part in found.not_tuned]


def test_a_module_without_relax_is_its_functions() -> None:
    mod = tvm.IRModule({"linear0": mixture()["linear0"]})
    assert [(task.name, task.weight) for task in extracted(mod, "as_is").tasks] == [("linear0", 1)]
