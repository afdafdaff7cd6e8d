"""The client's canonical target: the golden vectors that the service's obeys too, and what TVM exports."""

import json
from pathlib import Path

import pytest
from tvm.target import Target

from tilefarm.errors import TargetError
from tilefarm.target import canonical, key, of_tvm

VECTORS = json.loads((Path(__file__).parents[1] / "data" / "target_vectors.json").read_text())


@pytest.mark.parametrize("vector", VECTORS["accepted"], ids=lambda v: v["key"][:8])
def test_golden_vectors_have_their_canonical_form_and_key(vector):
    form = canonical(vector["target"])
    assert form == vector["canonical"]
    assert key(form) == vector["key"]


@pytest.mark.parametrize("vector", VECTORS["refused"], ids=lambda v: json.dumps(v["target"])[:50])
def test_refused_targets_say_why(vector):
    with pytest.raises(TargetError) as refusal:
        canonical(vector["target"])
    assert refusal.value.code == vector["code"]


@pytest.mark.parametrize(
    "target",
    [
        {"kind": "llvm", "mcpu": "znver4", "num-cores": 2},
        {"kind": "llvm", "mcpu": "rocketlake", "num-cores": 4, "mattr": ["+avx2", "+avx512f"]},
    ],
)
def test_a_tvm_target_has_the_form_of_its_dict(target):
    assert of_tvm(Target(target)) == canonical(target) == target


def test_a_cuda_tag_has_arch_and_limits_and_no_tag():
    form = of_tvm(Target("nvidia/nvidia-h100"))
    assert form["kind"] == "cuda"
    assert form["arch"].startswith("sm_90")
    assert form["max_threads_per_block"] == 1024
    assert {"tag", "keys", "host"}.isdisjoint(form)
