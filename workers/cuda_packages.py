"""NVIDIA's packages of this Python: where their libraries and headers are.

Pure of TVM and of any GPU: a host without one compiles for CUDA too, with what `tilefarm-server[cuda]`
installs.
"""

from importlib.util import find_spec
from pathlib import Path

from workers.errors import DeviceError

#: Of the toolkit that TVM's wheel is built against.
_MAJOR = 13
RUNTIME_LIBRARY, COMPILER_LIBRARY = f"libcudart.so.{_MAJOR}", f"libnvrtc.so.{_MAJOR}"
#: Headers without which TVM compiles no kernel.
_HEADERS = ("cuda_runtime.h", "cuda_fp16.h", "crt/host_defines.h", "cccl/cuda/std/cstdint")
_HINT = "pip install 'tilefarm-server[cuda]' brings it"


def library(name: str) -> Path:
    """The path of one of the libraries; raises DeviceError where its package is not installed."""
    return _found(f"lib/{name}")


def check_compiler() -> None:
    """Raises DeviceError, naming what is missing, where no kernel could be compiled."""
    for name in (RUNTIME_LIBRARY, COMPILER_LIBRARY):
        library(name)
    for header in _HEADERS:
        _found(f"include/{header}")
    if find_spec("cuda") is None or find_spec("cuda.bindings") is None:
        raise DeviceError(f"the package cuda-bindings is not installed; {_HINT}")


def headers() -> Path:
    """The directory of CUDA's headers; raises DeviceError where there is none."""
    return _found("include")


def _found(name: str) -> Path:
    spec = find_spec("nvidia")
    for place in (spec.submodule_search_locations or ()) if spec is not None else ():
        path = Path(place) / f"cu{_MAJOR}" / name
        if path.exists():
            return path
    raise DeviceError(f"NVIDIA's package with {Path(name).name} of CUDA {_MAJOR} is not installed; {_HINT}")
