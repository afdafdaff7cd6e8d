"""The classroom's modules, loaded once for the room; TVM comes in by the light loader."""

import json

import pytest

from tuner.tvm_light import load_tvm

load_tvm()

from examples import classroom  # noqa: E402 - tvm must come in by the light loader first
from tuner.module import canonical_module, load_module, prim_functions  # noqa: E402 - after the light loader
from tuner.trace import canonical_text  # noqa: E402 - after the light loader


@pytest.fixture(scope="session")
def classroom_json():
    tvm = load_tvm()
    return {name: tvm.ir.save_json(mod) for name, mod in classroom.modules().items()}


@pytest.fixture(scope="session")
def workloads(classroom_json):
    """Canonical IRModules by name."""
    found = {}
    for name, text in classroom_json.items():
        (func,) = prim_functions(load_module(text)).values()
        found[name] = canonical_module(func)
    return found


@pytest.fixture(scope="session")
def mm_space():
    """The hand-written space of mm, as it travels."""
    tvm = load_tvm()
    schedule = tvm.s_tir.Schedule(classroom.modules()["mm"], debug_mask="none")
    classroom.mm_space(schedule)
    return {"traces": [json.loads(canonical_text(schedule.trace))], "postprocs": [], "mutators": {}}


@pytest.fixture(scope="session")
def llvm():
    return {"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 2}
