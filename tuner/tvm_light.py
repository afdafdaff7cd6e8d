"""Loading TVM without its slow half: `tvm.s_tir.tensor_intrin` parses every device's intrinsics (seconds).

A stub package takes that module's place, so that only the submodule of the target at hand is parsed: `.x86`
for llvm (0.1 s), `.arm_cpu` where that is AArch64, `.cuda` for cuda (3 s; 13 s as its parser would have it).
This module decides nothing else and must be the first to import tvm in a process; where the whole package was
imported before, it stays.
"""

import inspect
import linecache
import platform
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from tuner.errors import UnknownTargetError
from tuner.imports import import_alone

_PACKAGE = "tvm.s_tir.tensor_intrin"
#: Target kind -> the submodule whose intrinsics its default rules name.
_INTRINSICS = {"llvm": "x86", "cuda": "cuda"}
#: The same of llvm's architectures, where it is another one.
_OF_ARCHITECTURE = {"aarch64": "arm_cpu"}
#: Where the intrinsics are that a trace may name (checks.trace_allowed), by how their names begin.
_OF_NAMES = {"dot_4x4": "arm_cpu", "wmma": "cuda", "mma": "cuda", "ldmatrix": "cuda", "dp4a": "cuda"}
_lock = threading.RLock()


def load_tvm(kind: str = "llvm", *, architecture: str | None = None) -> Any:
    """The `tvm` module, this target kind's tensor intrinsics registered; idempotent, from any thread.

    `architecture` of an llvm target, as its triple begins; None: this host's. Without its compiler
    (TVM_USE_RUNTIME_LIB=1) there is nothing to register.

    PyTorch, which TVM imports where it is installed, is left out.

    Raises UnknownTargetError for a kind that the farm does not serve.
    """
    if kind not in _INTRINSICS:
        raise UnknownTargetError(
            f"target kind {kind!r} is not one of {sorted(_INTRINSICS)}", code="unknown_target"
        )
    name = _INTRINSICS[kind]
    if kind == "llvm":
        name = _OF_ARCHITECTURE.get(architecture or platform.machine(), name)
    with _lock:
        return _load(name)


def load_intrinsics(names: Iterable[str]) -> None:
    """Registers TVM's tensor intrinsics of these names, of whichever device; what is unknown is left out."""
    for name in names:
        for prefix, submodule in _OF_NAMES.items():
            if name.startswith(prefix):
                with _lock:
                    _load(submodule)


@cache
def tvm_version() -> str:
    """As TVM itself tells it; part of every record's key."""
    return str(load_tvm().__version__)


def has_compiler() -> bool:
    """False where only TVM's runtime is there: kernels can be loaded and timed, nothing can be built."""
    with _lock:
        tvm = _imported()
    return tvm.get_global_func("target.build.llvm", allow_missing=True) is not None


@cache
def _load(name: str) -> ModuleType:
    tvm = _imported()
    if not has_compiler():
        return tvm
    s_tir = import_module("tvm.s_tir")
    if _PACKAGE not in sys.modules:
        stub = ModuleType(_PACKAGE, "Stands for the package; submodules are imported singly.")
        stub.__path__ = [str(Path(s_tir.__path__[0]) / "tensor_intrin")]
        sys.modules[_PACKAGE] = stub
        s_tir.tensor_intrin = stub  # type: ignore[attr-defined]  # import binds a submodule to its parent so
    with _quick_parser():
        import_module(f"{_PACKAGE}.{name}")
    _remember_types()
    return tvm


@cache
def _remember_types() -> None:
    """Each schedule primitive takes its hints apart for each argument: a quarter of a design space's time."""
    checker = import_module("tvm.s_tir.schedule._type_checker")
    checker._dispatcher = cache(checker._dispatcher)  # type: ignore[attr-defined]  # noqa: SLF001


def _imported() -> Any:
    return import_alone("tvm", without=("torch",))


@contextmanager
def _quick_parser() -> Iterator[None]:
    """TVMScript's parser asks for the whole stack at each function, three quarters of an import's time."""
    original = inspect.stack
    inspect.stack = quick_stack
    try:
        yield
    finally:
        inspect.stack = original


def quick_stack(context: int = 1) -> list[inspect.FrameInfo]:  # noqa: ARG001 - inspect.stack's
    """What TVMScript's parser reads of `inspect.stack`, each frame's variables and its line of source.

    The library's own looks through all modules for every frame of the importing of one: those have no file.
    """
    frames, frame = [], inspect.currentframe()
    while frame is not None and (frame := frame.f_back) is not None:
        name, number = frame.f_code.co_filename, frame.f_lineno
        line = linecache.getline(name, number, frame.f_globals)
        lines, index = ([line], 0) if line else (None, None)
        frames.append(inspect.FrameInfo(frame, name, number, frame.f_code.co_name, lines, index))
    return frames
