"""The suite's modules, built in a process of its own: this one stays free of TVM."""

import argparse
import json
import subprocess
import sys
from typing import Any

import pytest

from bench import suite, workloads

_SCRIPT = """
import json
from bench import suite
from tuner.module import load_module
found = {}
for name in suite.names():
    workload = suite.workload(name)
    function = load_module(workload.module)["main"]
    found[name] = {
        "flops": workload.flops,
        "noalias": bool(function.attrs["tirx.noalias"]),
        "layout_free": "layout_free_buffers" in function.attrs,
        "shapes": [[int(extent) for extent in parameter.ty.shape] for parameter in function.params],
        "dtypes": sorted({str(parameter.ty.dtype) for parameter in function.params}),
    }
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def built() -> dict[str, Any]:
    done = subprocess.run([sys.executable, "-c", _SCRIPT], capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout))


def test_every_workload_builds_in_float32_without_aliases(built: dict[str, Any]):
    assert set(built) == set(suite.names())
    assert len(suite.DEVELOPMENT) == 12
    assert all(workload["noalias"] and workload["dtypes"] == ["float32"] for workload in built.values())


def test_flops_are_those_of_the_formulas(built: dict[str, Any]):
    assert built["GMM-512"]["flops"] == 2 * 512**3
    assert built["DENSE-odd"]["flops"] == pytest.approx(2 * 101 * 1000 * 768, rel=1e-3)
    assert built["RES-1"]["flops"] == 2 * 56 * 56 * 64 * 64 * 9
    assert built["RES-2"]["flops"] == 2 * 14 * 14 * 256 * 128 * 9


def test_shapes_are_those_of_the_layers(built: dict[str, Any]):
    assert built["C2D-a"]["shapes"] == [[1, 14, 14, 256], [3, 3, 256, 256], [1, 14, 14, 256]]
    assert built["DIL"]["shapes"][-1] == [1, 28, 28, 96]
    assert built["SFM"]["shapes"] == [[1024, 1024], [1024, 1024]]
    assert built["GEMV"]["shapes"] == [[1, 3072], [3072, 3072], [3072], [1, 3072]]


def test_weights_of_dense_layers_are_layout_free(built: dict[str, Any]):
    assert {name for name, workload in built.items() if workload["layout_free"]} == {
        "DENSE",
        "DENSE-odd",
        "GEMV",
        "SKINNY",
    }


def test_names_and_lists_of_them_may_be_mixed_and_each_comes_once():
    assert workloads.asked("SFM,extension,GEMV,matmul:33x500x63") == (
        "SFM", *suite.EXTENSION, "matmul:33x500x63"
    )  # fmt: skip


@pytest.mark.parametrize("text", ["SFM,sweet", "", "matmull:33x500x63"])
def test_a_name_of_nothing_is_told_before_anything_starts(text: str):
    with pytest.raises(argparse.ArgumentTypeError, match="no workload and no list is called"):
        workloads.asked(text)
