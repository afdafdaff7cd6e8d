"""The canonical target of the GPU below us, and which GPUs run what is compiled for an arch."""

import re
from collections.abc import Collection, Mapping
from typing import Any

from checks.target import canonical
from tuner.errors import UnknownTargetError
from tuner.tvm_light import has_compiler, load_tvm

_ARCH = re.compile(r"sm_(\d+)(\d)([af]?)")
_VENDOR = "nvidia"
#: From here on NVIDIA's archs have instructions of their own, which a name ending in `a` allows.
_OWN_INSTRUCTIONS = 9


def detect_gpu_target(model: str) -> dict[str, Any]:
    """The canonical dict of this process's first GPU: TVM's tag of its model where there is one.

    `model` is NVIDIA's name of it. TVM's device API must be loaded. Raises UnknownTargetError where CUDA
    finds no GPU.
    """
    tvm = load_tvm()
    device = tvm.cuda(0)
    if not device.exist:
        raise UnknownTargetError("CUDA finds no GPU in this process", code="unknown_target")
    major, minor = (int(part) for part in str(device.compute_version).split("."))
    own = "a" if major >= _OWN_INSTRUCTIONS else ""
    found: dict[str, Any] = {
        "kind": "cuda",
        "arch": f"sm_{major}{minor}{own}",
        "max_threads_per_block": int(device.max_threads_per_block),
        "max_shared_memory_per_block": int(device.max_shared_memory_per_block),
        "thread_warp_size": int(device.warp_size),
    }
    tagged = _tagged(model, found["arch"]) if has_compiler() else None
    return canonical(tagged or found)


def check_gpu(target: Mapping[str, Any], *, features: Collection[str]) -> None:
    """UnknownTargetError (mislabelled_target) where no GPU among the features runs the target's code."""
    device = next((name for name in features if _ARCH.fullmatch(name)), None)
    if device is None:
        raise UnknownTargetError("the target is a GPU's, this host times on none", code="mislabelled_target")
    if not runs(str(target["arch"]), device):
        detail = f"what is compiled for {target['arch']} does not run on this host's GPU, an {device}"
        raise UnknownTargetError(detail, code="mislabelled_target")


def runs(arch: str, device: str) -> bool:
    """Whether machine code for `arch` runs on a GPU of the arch `device` (CUDA's programming guide, 5.4).

    Within a major version code runs on equal or later minor ones; that of an arch of its own (`a`) on that
    very one alone.
    """
    wanted, have = _ARCH.fullmatch(arch), _ARCH.fullmatch(device)
    if wanted is None or have is None or wanted[1] != have[1]:
        return False
    return int(wanted[2]) == int(have[2]) if wanted[3] == "a" else int(wanted[2]) <= int(have[2])


def _tagged(model: str, arch: str) -> dict[str, Any] | None:
    """What stands behind TVM's tag of this model: the longest name that the model begins with."""
    words = _words(model)
    best: tuple[int, dict[str, Any] | None] = (0, None)
    for tag, target in load_tvm().target.list_tags().items():
        vendor, _, name = str(tag).partition("/")
        tagged = _words(name)
        if vendor != _VENDOR or words[: len(tagged)] != tagged or str(target.attrs.get("arch")) != arch:
            continue
        best = max(best, (len(tagged), dict(target.export())), key=lambda each: each[0])
    return best[1]


def _words(name: str) -> list[str]:
    found = re.split(r"[\s_/-]+", name.lower())
    return found[1:] if found[:1] == [_VENDOR] else found
