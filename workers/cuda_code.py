"""Inside a child: kernels for CUDA, compiled on hosts with and without a GPU, loaded where there is one.

TVM compiles the source of a CUDA kernel where its CUDA runtime is loaded; elsewhere it keeps the source for
the host that loads it. Here the source is compiled as soon as TVM has written it, by TVM's own function and
options (NVRTC, to machine code of the target's arch), and what travels in its place is a line of text that
holds the machine code. Where the kernel is loaded, TVM asks for that line to be compiled: it is decoded.
"""

import base64
import binascii
import ctypes
import os
from pathlib import Path
from typing import Any

from tuner.tvm_light import has_compiler, load_tvm
from workers.cuda_packages import COMPILER_LIBRARY, RUNTIME_LIBRARY, library
from workers.errors import DeviceError, ProgramError

_MARK = "// tilefarm: machine code "
#: The environment's name of the toolkit whose headers are all NVIDIA's; CUDA_PATH is what TVM reads.
OWN_TOOLKIT = "TILEFARM_CUDA_PATH"
_TOOLKIT = "CUDA_PATH"


def load_cuda_runtime() -> None:
    """NVIDIA's runtime into this process, before TVM is imported, which then finds it; no GPU is touched."""
    ctypes.CDLL(str(library(RUNTIME_LIBRARY)), mode=ctypes.RTLD_GLOBAL)


def load_cuda() -> None:
    """TVM's part for CUDA, its compiler where TVM has its own, and this module's two functions.

    Raises DeviceError where a library of it is missing.
    """
    load_tvm()
    if has_compiler():
        ctypes.CDLL(str(library(COMPILER_LIBRARY)), mode=ctypes.RTLD_GLOBAL)
        import tvm.support.nvcc  # noqa: F401 - it registers functions that stand below in its place
    _register("tvm_callback_cuda_postproc", _compiled)
    _register("tvm_callback_cuda_compile", _decoded)


def load_device_api() -> None:
    """TVM's runtime for GPUs. Raises DeviceError where it, or the driver's library, does not load."""
    tvm = load_tvm()
    if tvm.get_global_func("device_api.cuda", allow_missing=True) is not None:
        return
    path = Path(tvm.__file__).parent / "lib" / "libtvm_runtime_cuda.so"
    try:
        ctypes.CDLL(str(path))
    except OSError as error:
        raise DeviceError(f"TVM's runtime for CUDA does not load: {error}") from error
    _register("tvm_callback_cuda_compile", _decoded)


def _compiled(source: str, target: Any) -> str:
    """What TVM keeps of a kernel: its machine code as text. Called by TVM; what it raises fails the build."""
    try:
        code = _machine_code(source, target)
    except RuntimeError:
        if os.environ.get(OWN_TOOLKIT) in (None, os.environ[_TOOLKIT]):
            raise
        os.environ[_TOOLKIT] = os.environ[OWN_TOOLKIT]
        code = _machine_code(source, target)
    return _MARK + base64.b64encode(code).decode("ascii")


def _machine_code(source: str, target: Any) -> bytes:
    from tvm.support import nvcc

    with target:
        return bytes(nvcc.compile_cuda(source, target_format="cubin", compiler="nvrtc"))


def _decoded(text: str) -> bytes:
    """Machine code from what `_compiled` made of it. Called by TVM where a kernel is loaded."""
    if not text.startswith(_MARK):
        raise ProgramError("a CUDA kernel came as source: it was built without tilefarm's compiler")
    try:
        return base64.b64decode(text.removeprefix(_MARK), validate=True)
    except binascii.Error as error:
        raise ProgramError(f"a CUDA kernel's machine code does not read: {error}") from error


def _register(name: str, function: Any) -> None:
    import tvm_ffi

    tvm_ffi.register_global_func(name, function, override=True)
