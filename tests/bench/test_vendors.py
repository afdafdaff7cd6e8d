"""numpy computes what the suite's modules compute, or the comparison means nothing."""

import numpy as np
import pytest

from bench.suite import workload
from bench.vendors import PRODUCTS, numpy_secs
from tuner.module import load_module
from tuner.target import detect_local_target
from tuner.tvm_light import load_tvm


@pytest.mark.parametrize("name", ["TBG", "DENSE-odd"])
def test_numpy_computes_what_the_module_computes(name):
    tvm = load_tvm()
    mod = load_module(workload(name).module)
    generator = np.random.default_rng(0)
    arrays = [
        generator.random([int(extent) for extent in parameter.ty.shape], dtype="float32")
        for parameter in mod["main"].params
    ]
    tensors = [tvm.runtime.tensor(array) for array in arrays]
    tvm.compile(mod, tvm.target.Target("llvm"))["main"](*tensors)
    np.testing.assert_allclose(PRODUCTS[name](*arrays[:-1]), tensors[-1].numpy(), rtol=1e-4)


def test_it_is_timed_in_a_process_of_its_own():
    secs = numpy_secs("TBG", workload("TBG").module, detect_local_target())
    assert secs is not None
    assert 0 < secs < 1
    assert numpy_secs("SFM", "", {}) is None
