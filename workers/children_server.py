"""The fork server of a worker's children: which TVM they load, and what of CUDA.

Nothing else of the worker's environment reaches them.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sandbox.fork_server import ForkServer
from workers.cuda_code import OWN_TOOLKIT
from workers.cuda_headers import lay_out
from workers.cuda_packages import check_compiler, headers
from workers.device import Device

_RUNTIME_ONLY = "TVM_USE_RUNTIME_LIB"
#: Where a container has the driver's libraries, if not where the loader looks.
_LIBRARY_PATH = "LD_LIBRARY_PATH"


def children_server(directory: Path, *, device: Device, target: Mapping[str, Any] | None) -> ForkServer:
    """Of a device, and of the target that is served instead of its own.

    Raises DeviceError where CUDA is served and a package for it is missing.
    """
    env = _passed(_RUNTIME_ONLY)
    if device.gpu is None and not _is_cuda(target):
        return ForkServer(["workers.preload"], work_dir=directory, env=env)
    if env.get(_RUNTIME_ONLY) != "1":
        check_compiler()
        short, own = lay_out(headers(), directory / "cuda")
        env |= {"CUDA_PATH": str(short), OWN_TOOLKIT: str(own)}
    env |= _passed(_LIBRARY_PATH)
    if device.gpu is not None:
        # The driver keeps nothing on disk of code that is compiled already, and children may write nowhere.
        env |= {"CUDA_VISIBLE_DEVICES": device.gpu.uuid, "CUDA_CACHE_DISABLE": "1"}
    return ForkServer(["workers.preload_cuda", "workers.preload"], work_dir=directory, env=env)


def _is_cuda(target: Mapping[str, Any] | None) -> bool:
    """A tag of TVM's that a worker serves is a GPU's: CPUs are named by their mcpu."""
    return target is not None and (target.get("kind") == "cuda" or set(target) == {"tag"})


def _passed(name: str) -> dict[str, str]:
    return {name: os.environ[name]} if name in os.environ else {}
