"""The local target is one that LLVM knows, and no more than this CPU has."""

import subprocess
import sys

import pytest

from checks import target as checks_target
from tuner import target as tuner_target
from tuner import tvm_light
from tuner.errors import UnknownTargetError
from tuner.target import (
    check_host,
    detect_local_target,
    host_features,
    llvm_knows_cpu,
    make_target,
    resolve_tag,
)
from tuner.tvm_light import load_tvm, tvm_version


def test_the_local_target_is_canonical_and_known_to_llvm():
    found = detect_local_target()
    assert checks_target.canonical(found) == found
    assert llvm_knows_cpu(found["mcpu"])
    assert found["num-cores"] >= 1
    assert detect_local_target(num_cores=3)["num-cores"] == 3


def test_a_cpu_whose_features_a_hypervisor_hides_is_not_taken(monkeypatch):
    v3 = {"avx", "avx2", "fma", "f16c", "bmi1", "bmi2", "sse4_1", "sse4_2"}
    monkeypatch.setattr(tuner_target, "_cpuinfo_flags", lambda: frozenset(v3))
    found = detect_local_target()["mcpu"]
    assert not tuner_target._missing_features(found, v3)
    assert tuner_target._missing_features("x86-64-v4", v3) >= {"avx512f", "avx512vl"}


def test_native_is_no_cpu_that_llvm_knows():
    assert not llvm_knows_cpu("native")
    assert llvm_knows_cpu("x86-64-v3")


def test_a_canonical_dict_becomes_a_tvm_target(llvm):
    target = make_target({**llvm, "mattr": ["+avx2", "+fma"]})
    assert (str(target.kind.name), str(target.mcpu), int(target.attrs["num-cores"])) == (
        "llvm",
        "x86-64-v3",
        2,
    )
    assert [str(feature) for feature in target.attrs["mattr"]] == ["+avx2", "+fma"]


@pytest.mark.parametrize("target", [{"kind": "llvm", "mcpu": "native", "num-cores": 2}, {"kind": "hexagon"}])
def test_what_tvm_or_llvm_does_not_know_is_refused(target):
    with pytest.raises(UnknownTargetError):
        make_target(target)


def test_the_version_is_tvms_own():
    assert tvm_version() == load_tvm().__version__


def test_the_light_load_leaves_other_devices_intrinsics_alone():
    code = (
        "import sys; from tuner.tvm_light import load_tvm; load_tvm(); load_tvm()\n"
        "from tvm.s_tir import TensorIntrin\n"
        "assert TensorIntrin.get('dot_16x4_vnni') is not None\n"
        "names = [name for name in sys.modules if name.startswith('tvm.s_tir.tensor_intrin.')]\n"
        "print(sorted(name.rpartition('.')[2] for name in names))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['x86']"


def test_a_quick_parse_makes_the_same_intrinsics():
    code = (
        "import contextlib, inspect; from tuner import tvm_light; stack = inspect.stack\n"
        "{change}"
        "tvm_light.load_tvm(); assert inspect.stack is stack\n"
        "from tvm.s_tir import TensorIntrin; from tvm.s_tir.tensor_intrin import x86\n"
        "for name in sorted(value for name, value in vars(x86).items() if name.endswith('_INTRIN')):\n"
        "    print(name, TensorIntrin.get(name).desc.script(), TensorIntrin.get(name).impl.script())"
    )

    def told(change: str) -> bytes:
        run = [sys.executable, "-c", code.format(change=change)]
        return subprocess.run(run, capture_output=True, check=True).stdout

    quick = told("")
    assert b"dot_16x4_vnni" in quick
    assert quick == told("tvm_light._quick_parser = contextlib.nullcontext\n")


def test_a_gpu_tag_is_resolved_without_parsing_the_gpus_intrinsics(monkeypatch):
    monkeypatch.setattr(tvm_light, "import_module", pytest.fail)
    found = resolve_tag("nvidia/nvidia-h100")
    assert (found["kind"], found["arch"]) == ("cuda", "sm_90a")
    assert checks_target.canonical(found) == found


def test_a_gpu_target_brings_its_intrinsics_and_our_host(monkeypatch):
    """The import itself takes seconds: here it is only seen to be asked for."""
    asked = []
    real = tvm_light.import_module
    monkeypatch.setattr(
        tvm_light, "import_module", lambda name: asked.append(name) if name.endswith(".cuda") else real(name)
    )
    tvm_light._load.cache_clear()
    target = make_target({"kind": "cuda", "arch": "sm_90a", "max_num_threads": 1024, "thread_warp_size": 32})
    tvm_light._load.cache_clear()
    assert asked == ["tvm.s_tir.tensor_intrin.cuda"]
    assert (str(target.kind.name), str(target.host.kind.name)) == ("cuda", "llvm")


def test_a_host_lacks_what_an_mcpu_or_its_attributes_need():
    v3 = {"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 2}
    features = ["avx", "avx2", "bmi", "bmi2", "f16c", "fma", "sse4.1", "sse4.2"]
    check_host(v3, features=features, machine="x86_64")
    check_host({**v3, "mcpu": "znver5"}, features=None, machine="x86_64")
    with pytest.raises(UnknownTargetError, match=r"'znver5' needs CPU features .* avx512bf16, avx512bitalg"):
        check_host({**v3, "mcpu": "znver5"}, features=features, machine="x86_64")
    with pytest.raises(UnknownTargetError, match="does not have: avx512f"):
        check_host({**v3, "mattr": ["+avx512f"]}, features=features, machine="x86_64")
    check_host({**v3, "mattr": ["-fma"]}, features=features[:5] + features[6:], machine="x86_64")
    with pytest.raises(UnknownTargetError, match="for x86_64, this host is aarch64"):
        check_host(v3, features=None, machine="aarch64")


def test_this_host_can_run_its_own_target():
    check_host(detect_local_target(), features=host_features(), machine="x86_64")
