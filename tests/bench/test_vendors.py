"""Other libraries compute what the suite's modules compute, or the comparison means nothing."""

import importlib.util
import os

import numpy as np
import pytest

from bench import vendors, workloads
from bench.drawn import DRAWN
from bench.kinds import KINDS, Dice
from bench.names import drawn_name
from bench.parts import PARTS
from bench.vendor_numpy import PRODUCTS
from bench.vendor_torch import FUNCTIONS, prepared
from tuner.module import load_module
from tuner.target import detect_local_target
from tuner.tvm_light import load_tvm


def module_of(name):
    return workloads.workload(name).module


def inputs_and_output(name):
    """As the untuned module computes it."""
    tvm = load_tvm()
    mod = load_module(module_of(name))
    generator = np.random.default_rng(0)
    arrays = [
        generator.random([int(extent) for extent in parameter.ty.shape], "float32").astype(
            str(parameter.ty.dtype)
        )
        for parameter in mod["main"].params
    ]
    tensors = [tvm.runtime.tensor(array) for array in arrays]
    tvm.compile(mod, tvm.target.Target("llvm"))["main"](*tensors)
    return arrays[:-1], tensors[-1].numpy()


@pytest.mark.parametrize("name", ["TBG", "DENSE-odd", "SCORES", "GMM-TN"])
def test_numpy_computes_what_the_module_computes(name):
    arrays, expected = inputs_and_output(name)
    np.testing.assert_allclose(PRODUCTS[name](*arrays), expected, rtol=1e-4)


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="the extra torch is not installed")
@pytest.mark.parametrize(
    "name",
    [
        *("C1D", "CBR", "DEP", "TBG", "NCHW-stem", "C3D", "NORM", "T2D", "T2D-NCHW", "T2D-odd"),
        *("GMM-TN", "NCHW-S2", "RESIDUAL", "DEP-S2", "DEP-NCHW", "POOL", "GAP"),
        *("INSTANCE", "NORM-DENSE", "ATTENTION", "MASKED-SFM", "GATES", "DEP-DIL", "DEP-7-14"),
        *(name for name in (*PARTS, *DRAWN) if name in FUNCTIONS),
        *(drawn_name(kind, KINDS[kind].draw(Dice(seed))) for kind in KINDS for seed in range(2)),
    ],
)
def test_pytorch_computes_what_the_module_computes(name):
    arrays, expected = inputs_and_output(name)
    for call in prepared(name, arrays, 1):
        found = call().numpy()
        if found.shape != expected.shape:  # channels first
            found = np.moveaxis(found, 1, -1)
        # Of what is centred, what comes out near zero has no digits of its own.
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max())


def test_it_is_timed_in_a_process_of_its_own():
    secs = vendors.secs("numpy", "TBG", module_of("TBG"), detect_local_target())
    assert secs is not None
    assert 0 < secs < 1


def test_what_a_library_does_not_have_has_no_time():
    assert vendors.secs("numpy", "SFM", "", {}) is None
    assert vendors.secs("torch", "CAP", "", {}) is None


def test_pytorch_is_asked_in_the_python_that_is_named(monkeypatch, tmp_path):
    """It has an environment of its own; without one, and without the extra, there is no time."""
    fake = tmp_path / "python"
    fake.write_text("#!/bin/sh\necho '{\"secs\": 0.25}' > $4\n")
    fake.chmod(0o755)
    monkeypatch.setitem(os.environ, "TILEFARM_BENCH_TORCH", str(fake))
    assert vendors.secs("torch", "TBG", module_of("TBG"), detect_local_target()) == 0.25
    assert set(FUNCTIONS) > set(PRODUCTS)
