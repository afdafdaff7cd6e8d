"""Fresh processes that answer with JSON, and what a whole tree of processes cost."""

import ctypes
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_PR_SET_CHILD_SUBREAPER = 36
_REAP_SECS = 15.0
_POLL_SECS = 0.05


class BenchError(RuntimeError):
    """A process of the benchmark failed: which, and its last words."""


def ask(
    module: str,
    order: Mapping[str, Any],
    *,
    env: Mapping[str, str] | None = None,
    python: str = sys.executable,
) -> Any:
    """Run `python -m module order.json answer.json` and return the answer. Raises BenchError."""
    with tempfile.TemporaryDirectory(prefix="tilefarm-bench-") as directory:
        paths = [Path(directory) / name for name in ("order.json", "answer.json", "stderr")]
        paths[0].write_text(json.dumps(order))
        with paths[2].open("wb") as stderr:
            done = subprocess.run(
                [python, "-m", module, str(paths[0]), str(paths[1])],
                env={**os.environ, **(env or {})},
                stdin=subprocess.DEVNULL,
                stdout=stderr,
                stderr=stderr,
                check=False,
            )
        if done.returncode != 0:
            words = paths[2].read_text(errors="replace")[-3000:]
            raise BenchError(f"{module} ended with {done.returncode}\n{words}")
        return json.loads(paths[1].read_text())


def order_and_answer() -> tuple[dict[str, Any], Path]:
    """The other side of `ask`: what was ordered, and where the answer goes."""
    return json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2])


def threads_of(target: Mapping[str, Any]) -> dict[str, str]:
    """The environment in which TVM's thread pool has the target's cores; else it takes half of the host's.

    It is read when the pool starts, so that a process gets it from the one that asks.
    """
    return {"TVM_NUM_THREADS": str(target["num-cores"])}


def check_threads(target: Mapping[str, Any]) -> None:
    """AssertionError where this process was not asked with `threads_of` its target."""
    assert threads_of(target).items() <= os.environ.items()


def adopt_orphans() -> None:
    """From now on this process reaps grandchildren whose parents die, so that their seconds are counted."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise BenchError(f"PR_SET_CHILD_SUBREAPER: {os.strerror(ctypes.get_errno())}")


def reaped_cpu_secs() -> float:
    """CPU seconds of all descendants, once they have ended; what does not end is killed first."""
    deadline = time.monotonic() + _REAP_SECS
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            break
        if pid == 0:
            if time.monotonic() > deadline:
                for child in _children():
                    os.kill(child, signal.SIGKILL)
            time.sleep(_POLL_SECS)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _children() -> list[int]:
    """Ours and adopted ones; whose parents are killed become ours in turn."""
    tasks = Path("/proc/self/task").iterdir()
    return [int(pid) for task in tasks for pid in (task / "children").read_text().split()]
