"""Starts an embedded service from a program (the demo, the benchmarks, the tests) and ends it again.

It is the `--ready-json` side of `tilefarm-server up`; it knows nothing of what runs inside.
"""

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from services.server.deathsig import DIE_WITH_PARENT

_READY_SECS = 120.0
_END_SECS = 60.0
_SAID_CHARS = 3000


class LaunchError(RuntimeError):
    """The embedded service did not come up, or did not end by itself; its own words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launched:
    """An embedded service that is ready."""

    process: subprocess.Popen[str]
    url: str
    token: str
    #: Name under which the local worker serves this machine's CPU, and its canonical target.
    profile: str
    target: dict[str, Any]
    data_dir: Path


@contextmanager
def launch(data_dir: Path, settings: Mapping[str, str] | None = None) -> Iterator[Launched]:
    """`tilefarm-server up` on `data_dir` and a free port; SIGTERM at the end, and waited for.

    `settings` are TILEFARM_ variables of its roles. Its diagnostics go to `up.err` in the data directory.
    Raises LaunchError where it does not come up.
    """
    data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    said = data_dir / "up.err"
    process = _start(data_dir, said, settings or {})
    try:
        ready = _ready(process, data_dir, said)
        yield Launched(
            process=process,
            url=ready["url"],
            token=Path(ready["token_file"]).read_text(encoding="utf-8").strip(),
            profile=ready["profile"],
            target=ready["target"],
            data_dir=data_dir,
        )
    finally:
        _end(process)


def logs_tail(data_dir: Path, *, max_lines: int = 15) -> str:
    """The last lines of every role's log."""
    parts = []
    for path in sorted((data_dir / "logs").glob("*.log")):
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()[-max_lines:]
        parts.append("\n".join([f"--- {path.name}", *lines]))
    return "\n".join(parts)


def _start(data_dir: Path, said: Path, settings: Mapping[str, str]) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "services.server.cli", "up", "--ready-json"]
    # What the user's shell says of another service is not meant for this one.
    env = {name: value for name, value in os.environ.items() if not name.startswith("TILEFARM_")}
    with said.open("ab") as errors:
        return subprocess.Popen(
            [*DIE_WITH_PARENT, *command, "--data-dir", str(data_dir), "--port", "0"],
            stdout=subprocess.PIPE,
            stderr=errors,
            stdin=subprocess.DEVNULL,
            env={**env, **settings},
            text=True,
            # Ctrl-C reaches the program, which then ends the service; not both at once.
            start_new_session=True,
        )


def _ready(process: subprocess.Popen[str], data_dir: Path, said: Path) -> dict[str, Any]:
    """The line that tells a program where the service is."""
    assert process.stdout is not None
    deadline = time.monotonic() + _READY_SECS
    while (left_secs := deadline - time.monotonic()) > 0:
        if not select.select([process.stdout], [], [], left_secs)[0]:
            break
        line = process.stdout.readline()
        if not line:
            break
        if line.startswith("{") and (ready := json.loads(line)).get("event") == "ready":
            return dict(ready)
    words = said.read_text(encoding="utf-8", errors="replace")[-_SAID_CHARS:]
    raise LaunchError(f"tilefarm-server up did not come up\n{words}\n{logs_tail(data_dir)}")


def _end(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        process.terminate()
    try:
        process.wait(_END_SECS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        raise LaunchError("the service did not end by itself and was killed") from None
    finally:
        assert process.stdout is not None
        process.stdout.close()
