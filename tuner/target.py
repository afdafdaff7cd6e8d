"""Canonical target dicts (checks.target) made into TVM targets, and the local CPU's own target.

The canonical form and its key belong to checks; here is only what needs TVM or LLVM to answer: does LLVM know
this CPU, what stands behind a tag, what is the machine below us.
"""

import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from checks.target import TargetError, canonical
from tuner.errors import UnknownTargetError
from tuner.gpu_target import check_gpu
from tuner.plain_json import plain
from tuner.tvm_light import load_tvm

#: TVM's wheel is built for this triple; a canonical dict names `mtriple` only where it differs.
DEFAULT_TRIPLE = "x86_64-unknown-linux-gnu"
#: From the strongest down; used where a hypervisor hides features of the CPU that LLVM recognised.
_GENERIC_CPUS = ("x86-64-v4", "x86-64-v3", "x86-64-v2")
#: LLVM's feature names whose absence makes vectorised code die by SIGILL.
_VECTOR_FEATURES = frozenset(
    {"avx", "avx2", "fma", "f16c", "bmi", "bmi2", "avx512f", "avx512vl", "avx512bw", "avx512dq", "avx512cd",
     "avx512vnni", "avx512bf16", "avx512fp16", "avx512vbmi", "avx512vbmi2", "avx512bitalg", "avx512vpopcntdq",
     "avx512ifma", "avxvnni", "avx512vp2intersect", "amx-tile", "amx-int8", "amx-bf16", "sse4.1", "sse4.2"}
)  # fmt: skip
#: LLVM's name -> the kernel's name in /proc/cpuinfo, where they differ.
_CPUINFO_NAMES = {
    "bmi": "bmi1", "sse4.1": "sse4_1", "sse4.2": "sse4_2", "avx512vnni": "avx512_vnni", "avxvnni": "avx_vnni",
    "avx512bf16": "avx512_bf16", "avx512fp16": "avx512_fp16", "avx512vbmi2": "avx512_vbmi2",
    "avx512bitalg": "avx512_bitalg", "avx512vpopcntdq": "avx512_vpopcntdq",
    "avx512vp2intersect": "avx512_vp2intersect", "amx-tile": "amx_tile", "amx-int8": "amx_int8",
    "amx-bf16": "amx_bf16",
}  # fmt: skip

#: Without these TVM's GPU rules and postprocs fail on the first candidate.
_NEEDED_TO_TUNE = {"cuda": ("max_threads_per_block", "max_shared_memory_per_block")}


def make_target(target: Mapping[str, Any]) -> Any:
    """The `tvm.target.Target` of a canonical dict; its tensor intrinsics are loaded, the host is ours.

    Raises UnknownTargetError where TVM refuses it or LLVM does not know the mcpu.
    """
    load_tvm(str(target.get("kind")), architecture=_architecture(target))
    return _tvm_target(target)


def check_mcpu(target: Mapping[str, Any]) -> None:
    """UnknownTargetError (unknown_mcpu) where LLVM would silently generate generic code instead."""
    if target["kind"] != "llvm":
        return
    mcpu, triple = str(target.get("mcpu")), str(target.get("mtriple", DEFAULT_TRIPLE))
    if not llvm_knows_cpu(mcpu, triple=triple):
        raise UnknownTargetError(f"LLVM knows no CPU {mcpu!r} for {triple}", code="unknown_mcpu")


def llvm_knows_cpu(mcpu: str, *, triple: str = DEFAULT_TRIPLE) -> bool:
    """`native` is not known: LLVM takes the word and means the generic CPU."""
    load_tvm()
    from tvm.target import codegen

    return mcpu not in ("", "native") and bool(codegen.llvm_is_valid_cpu(mcpu, triple))


def resolve_tag(tag: str) -> dict[str, Any]:
    """The canonical dict behind a TVM tag such as nvidia/nvidia-h100."""
    tvm = load_tvm()
    if "/" not in tag:  # a bare kind name is no tag, and would pass as a target without mcpu
        raise UnknownTargetError(f"{tag!r} is not a target tag of TVM", code="unknown_target")
    try:
        exported = tvm.target.Target(tag).export()
    except (ValueError, TypeError, RuntimeError) as error:
        raise UnknownTargetError(f"{tag!r} is not a target tag of TVM", code="unknown_target") from error
    return canonical_of(exported)


def canonical_of(exported: Mapping[str, Any]) -> dict[str, Any]:
    """The canonical dict of an exported target, once TVM and LLVM agree that it exists."""
    found = canonical(plain(exported))
    for name in _NEEDED_TO_TUNE.get(found["kind"], ()):
        if name not in found:
            detail = f"a {found['kind']} target must name {name!r} to be tuned for; a TVM tag names it"
            raise TargetError("missing_target_option", detail)
    _tvm_target(found)
    return found


def host_features() -> list[str] | None:
    """LLVM's names of the vector features that this host's CPU has; None where the kernel does not tell.

    By /proc/cpuinfo, which knows what a hypervisor hides; TVM need not be there.
    """
    flags = _cpuinfo_flags()
    if not flags:
        return None
    return sorted(name for name in _VECTOR_FEATURES if _CPUINFO_NAMES.get(name, name) in flags)


def check_host(target: Mapping[str, Any], *, features: Collection[str] | None, machine: str) -> None:
    """UnknownTargetError (mislabelled_target) where a host cannot run what is compiled for the target.

    `features`: of the host, as `host_features` names them, and the arch of the GPU that it times on; None
    where it cannot tell: its machine decides alone. `machine`: as platform.machine() names it.
    """
    if target["kind"] != "llvm":
        check_gpu(target, features=features or ())
        return
    arch = _architecture(target)
    if arch != machine:
        detail = f"the target is for {arch}, this host is {machine}"
        raise UnknownTargetError(detail, code="mislabelled_target")
    if features is None or machine != "x86_64":
        return
    missing = sorted(_vector_features(target) - set(features))
    if missing:
        names = ", ".join(missing)
        detail = f"mcpu {target['mcpu']!r} needs CPU features which this host does not have: {names}"
        raise UnknownTargetError(detail, code="mislabelled_target")


def detect_local_target(*, num_cores: int | None = None) -> dict[str, Any]:
    """The canonical dict of the CPU below us: mcpu as LLVM recognises it, num-cores by affinity.

    Where /proc/cpuinfo lacks a vector feature of that CPU (a hypervisor hides it), the strongest generic CPU
    that the machine really carries is taken.
    """
    load_tvm()
    from tvm.target import codegen

    flags = _cpuinfo_flags()
    names = (str(codegen.llvm_get_system_cpu()), *_GENERIC_CPUS)
    mcpu = next(
        (name for name in names if llvm_knows_cpu(name) and not _missing_features(name, flags)), "x86-64"
    )
    cores = num_cores if num_cores is not None else len(os.sched_getaffinity(0))
    return canonical({"kind": "llvm", "mcpu": mcpu, "num-cores": cores})


def _architecture(target: Mapping[str, Any]) -> str:
    """As the triple of an llvm target begins."""
    return str(target.get("mtriple", DEFAULT_TRIPLE)).partition("-")[0]


def _tvm_target(target: Mapping[str, Any]) -> Any:
    tvm = load_tvm()
    check_mcpu(target)
    host = {"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 1} if target["kind"] == "cuda" else None
    try:
        return tvm.target.Target(dict(target), host) if host else tvm.target.Target(dict(target))
    except (ValueError, TypeError, RuntimeError) as error:
        raise UnknownTargetError(f"TVM refuses the target: {error}", code="unknown_target") from error


def _missing_features(mcpu: str, flags: Collection[str]) -> set[str]:
    if not flags:
        return set()
    wanted = _vector_features({"kind": "llvm", "mcpu": mcpu, "num-cores": 1})
    return {name for name in wanted if _CPUINFO_NAMES.get(name, name) not in flags}


def _vector_features(target: Mapping[str, Any]) -> set[str]:
    """What LLVM may use for the target's mcpu and mattr, among the features whose absence kills."""
    tvm = load_tvm()
    from tvm.target import codegen

    found = {str(name) for name in codegen.llvm_get_cpu_features(tvm.target.Target(dict(target)))}
    for attribute in target.get("mattr", ()):
        (found.add if attribute[0] == "+" else found.discard)(attribute[1:])
    return found & _VECTOR_FEATURES


def _cpuinfo_flags() -> frozenset[str]:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return frozenset()
    for line in text.splitlines():
        if line.startswith("flags"):
            return frozenset(line.partition(":")[2].split())
    return frozenset()
