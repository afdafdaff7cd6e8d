"""Inside a child: from texts to a callable kernel, built exactly as a consumer of the record builds it.

Layout rewrite blocks stay: a consumer runs them on every call. It times nothing and compares nothing.
"""

import json
import math
import os
import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tuner.module import load_text
from tuner.target import make_target
from tuner.tvm_light import load_intrinsics, load_tvm
from workers.artifacts import LIBRARY_NAME
from workers.errors import ProgramError
from workers.inputs import Parameter

#: The only function of a workload in canonical form.
ENTRY = "main"
_LINK_TIMEOUT_SECS = 30.0
#: How linkers name what they do not find.
_MISSING = re.compile(r"undefined (?:references? to|symbol:?) [`']?([\w.@$]+)")
#: Of the names that generated code takes from TVM's runtime.
_RUNTIME_PREFIX = "TVM"


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A loaded kernel; `module` must live as long as `call`."""

    module: Any
    call: Any


def load_module(text: str) -> Any:
    tvm = load_tvm()
    module = load_text(text)
    if not isinstance(module, tvm.IRModule) or not module.functions:
        raise ProgramError("the workload is no IRModule with a function")
    return module


def replay(module: Any, trace_text: str) -> Any:
    """The scheduled module; raises what TVM raises where the trace does not fit."""
    load_tvm()
    from tvm.s_tir import Schedule
    from tvm.s_tir.schedule import Trace

    schedule = Schedule(module, debug_mask="none", error_render_level="fast")
    trace = json.loads(trace_text)
    load_intrinsics(attrs[0] for kind, _, attrs, _ in trace[0] if kind == "Tensorize")
    Trace.apply_json_to_schedule(trace, schedule)
    return schedule.mod


def compile_module(module: Any, target: dict[str, Any]) -> Any:
    """TVM's runtime module: its host's part before code generation, its GPU's part compiled."""
    tvm = load_tvm(str(target["kind"]))
    return tvm.tirx.build(module, make_target(target), "default")


def link(runtime: Any, *, linker: str | None, directory: Path) -> Callable[[], Program]:
    """Generate code: an object and `ld -shared`, or nothing yet where there is no ld.

    What is returned makes it callable; it starts no process, and none of the code runs before. Raises
    ProgramError.
    """
    if linker is None and runtime.imports:
        raise ProgramError("what runs on a GPU is linked by `ld` (binutils), which is not here")
    if linker is None:
        return lambda: Program(module=runtime, call=runtime.get_function(ENTRY))
    library = link_library(runtime, linker=linker, directory=directory)
    return lambda: _loaded(library)


def link_library(runtime: Any, *, linker: str, directory: Path) -> Path:
    """Generate code into LIBRARY_NAME in `directory`, without loading it; raises ProgramError."""
    object_path, library_path = directory / "kernel.o", directory / LIBRARY_NAME
    runtime.write_to_file(str(object_path), "o")
    objects = [str(object_path)]
    if runtime.imports:
        objects.append(str(_packed(runtime, directory / "imports.o")))
    command = [linker, "-shared", "-o", str(library_path), *objects]
    # Most kernels need no library, and ld takes ten times as long to read libc's symbols as to link them.
    done = _ld([*command, "-z", "defs", "--warn-unresolved-symbols"])
    if done.returncode != 0 or _needs_libraries(done.stderr.decode(errors="replace")):
        done = _ld([*command, *_c_libraries()])
    if done.returncode != 0:
        raise ProgramError(f"ld ended with {done.returncode}: {done.stderr.decode(errors='replace')[:500]}")
    return library_path


def _packed(runtime: Any, path: Path) -> Path:
    """The GPU's part as an object, which TVM's loader finds in the library."""
    pack: Any = load_tvm().get_global_func("runtime.ModulePackImportsToLLVM")
    target = str(runtime.get_function("_get_target_string")())
    pack(runtime, False, target, "").write_to_file(str(path), "o")
    return path


def _ld(command: list[str]) -> subprocess.CompletedProcess[bytes]:
    # Its warnings are read: they must not be translated.
    env = {**os.environ, "LC_ALL": "C"}
    return subprocess.run(command, capture_output=True, timeout=_LINK_TIMEOUT_SECS, check=False, env=env)


def _needs_libraries(warnings: str) -> bool:
    """Whether ld misses something that TVM's runtime, loaded before the kernel, does not have."""
    missing = set(_MISSING.findall(warnings))
    return bool(warnings) and not (missing and all(name.startswith(_RUNTIME_PREFIX) for name in missing))


@cache
def _c_libraries() -> tuple[str, ...]:
    """Paths of the libm and libc that this process runs with, to link against.

    A symbol that is left without a version binds to the oldest: expf@GLIBC_2.2.5, far slower than the expf
    that a consumer gets.
    """
    lines = Path("/proc/self/maps").read_text().splitlines()
    paths = {line.split(maxsplit=5)[5] for line in lines if "/" in line}
    return tuple(sorted(path for path in paths if Path(path).name in ("libm.so.6", "libc.so.6")))


def load_library(library: bytes, *, directory: Path) -> Program:
    """A kernel that another process has linked; it is written to LIBRARY_NAME in `directory` first."""
    return loader(library, directory=directory)()


def loader(library: bytes, *, directory: Path) -> Callable[[], Program]:
    """Writes it; what is returned loads it."""
    path = directory / LIBRARY_NAME
    path.write_bytes(library)
    return lambda: _loaded(path)


def _loaded(path: Path) -> Program:
    loaded = load_tvm().runtime.load_module(str(path))
    return Program(module=loaded, call=loaded.get_function(ENTRY))


def parameters(module: Any) -> list[Parameter]:
    """The buffer parameters in order; raises ProgramError for scalars and shapes that are not concrete."""
    tvm = load_tvm()
    found = []
    for variable in module[ENTRY].params:
        kind = variable.ty
        if not isinstance(kind, tvm.tirx.buffer.BufferType):
            raise ProgramError(f"parameter {variable.name!r} is a {kind}, not a buffer")
        shape = tuple(_concrete(extent, str(variable.name)) for extent in kind.shape)
        found.append(Parameter(name=str(variable.name), shape=shape, dtype=str(kind.dtype)))
    return found


def output_indices(module: Any) -> list[int]:
    """The parameters that some block writes (in-place ones too); all of them where no block tells."""
    variables = list(module[ENTRY].params)
    written = [region.source for block in blocks(module) for region in block.writes]
    found = [index for index, variable in enumerate(variables) if any(map(variable.same_as, written))]
    return found or list(range(len(variables)))


def reduction_length(module: Any) -> int:
    """The longest sum: the product of a block's reduction extents, the largest over the blocks."""
    return max((_reduction_extent(block) for block in blocks(module)), default=1)


def blocks(module: Any) -> list[Any]:
    """Every block of the workload's function, the root included."""
    tvm = load_tvm()
    import tvm_ffi

    found: list[Any] = []
    tvm_ffi.structural_walk(module[ENTRY].body, (tvm.s_tir.SBlock, found.append))
    return found


def _reduction_extent(block: Any) -> int:
    tvm = load_tvm()
    extents = [
        int(axis.dom.extent)
        for axis in block.iter_vars
        if axis.iter_type == tvm.tirx.IterVar.CommReduce and isinstance(axis.dom.extent, tvm.tirx.IntImm)
    ]
    return math.prod(extents)


def _concrete(extent: Any, name: str) -> int:
    try:
        return int(extent)
    except TypeError as error:
        raise ProgramError(f"parameter {name!r} has an extent that is not concrete: {extent}") from error
