"""Pairs of apache-tvm and apache-tvm-ffi that crash are refused before TVM is imported.

A crash inside TVM takes the whole compiler down, and no guard of ours can catch it. Pairs that are known are
known here; one that nobody has tried is tried once on a host, in a child of its own.
"""

import subprocess
import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from tilefarm.errors import TvmPairError
from tilefarm.settings import Settings
from tilefarm.whole import write_whole

#: Tried by this release's tests.
_GOOD = frozenset({("0.27.0.post1", "0.1.14.post1")})
#: Saving a module, and tuning, die by SIGSEGV in ToJSONGraph with these.
_CRASHING_FFI = ("0.1.15",)
_TRIAL_SECS = 120.0
#: What a miss, a hit and a tuning run do, with a small module.
_TRIAL = """
import tvm, tvm_ffi
from tvm import te
a = te.placeholder((8,), name="A")
b = te.compute((8,), lambda i: a[i] + 1.0, name="B")
mod = tvm.IRModule({"main": te.create_prim_func([a, b])})
again = tvm.ir.load_json(tvm.ir.save_json(mod))
tvm_ffi.structural_hash(mod)
assert tvm_ffi.structural_equal(mod, again)
schedule = tvm.s_tir.Schedule(mod)
schedule.parallel(schedule.get_loops(schedule.get_sblock("B"))[0])
tvm.s_tir.Trace.apply_json_to_schedule(schedule.trace.as_json(), tvm.s_tir.Schedule(again))
"""


def installed() -> tuple[str, str] | None:
    """The versions of TVM and its FFI, from metadata; None where TVM is not installed by a package."""
    try:
        return version("apache-tvm"), version("apache-tvm-ffi")
    except PackageNotFoundError:
        return None


@cache
def is_tested() -> bool:
    """Whether this release was tested with the installed pair."""
    return installed() in _GOOD


def ending(code: int) -> str:
    """How a child ended."""
    return f"signal {-code}" if code < 0 else f"exit code {code}"


def fault(pair: tuple[str, str]) -> str | None:
    """What is known against a pair."""
    if pair not in _GOOD and pair[1].startswith(_CRASHING_FFI):
        cure = "install apache-tvm-ffi==0.1.14.post1"
        return f"apache-tvm-ffi {pair[1]} crashes when a module is saved; {cure}"
    return None


def require() -> None:
    """As `require_safe`, with this user's own directory of answers: before TVM is imported for a user."""
    if not is_tested():
        require_safe(Settings.load().cache_dir)


def require_safe(cache_dir: Path, *, pair: tuple[str, str] | None = None) -> None:
    """TvmPairError where the installed pair crashes, or `pair` in its place.

    A build of the team's own, without a package's metadata, is theirs to vouch for.
    """
    found = pair or installed()
    if found is None or found in _GOOD:
        return
    known = fault(found)
    if known is not None:
        raise TvmPairError(known)
    kept = cache_dir / "tvm-pairs" / f"{found[0]}-{found[1]}"
    said = kept.read_text() if kept.is_file() else _try(kept)
    if said != "ok":
        names = f"apache-tvm {found[0]} with apache-tvm-ffi {found[1]}"
        again = f"; delete {kept} to have it tried again" if kept.is_file() else ""
        raise TvmPairError(f"{names} does not save a module: {said}{again}")


def _try(kept: Path) -> str:
    """`ok`, or how the child died; kept for this user's next process."""
    try:
        ended = subprocess.run(
            [sys.executable, "-c", _TRIAL], capture_output=True, timeout=_TRIAL_SECS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"no trial: {error}"
    said = "ok" if ended.returncode == 0 else ending(ended.returncode)
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        write_whole(kept, said.encode())
    except OSError:
        return said
    return said
