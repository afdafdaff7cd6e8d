"""Starts an embedded service from a program (the demo, the benchmarks, the tests) and ends it again.

It is the `--ready-json` side of `tilefarm-server up`; it knows nothing of what runs inside.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from services.server.deathsig import DIE_WITH_PARENT

_END_SECS = 60.0


class LaunchError(RuntimeError):
    """The embedded service did not come up; its own words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launched:
    """An embedded service that is ready."""

    process: subprocess.Popen[str]
    url: str
    token: str
    #: Canonical target of the local worker, which serves it under the profile `local`.
    target: dict[str, Any]
    data_dir: Path


@contextmanager
def launch(data_dir: Path, *, port: int = 0) -> Iterator[Launched]:
    """`tilefarm-server up` on `data_dir` and a free port; SIGTERM at the end, and waited for.

    Its diagnostics go to `up.log` in the data directory. Raises LaunchError where it does not come up.
    """
    data_dir.mkdir(parents=True, exist_ok=True)
    log = data_dir / "up.log"
    command = [sys.executable, "-m", "services.server.cli", "up", "--ready-json"]
    with log.open("ab") as errors:
        process = subprocess.Popen(
            [*DIE_WITH_PARENT, *command, "--data-dir", str(data_dir), "--port", str(port)],
            stdout=subprocess.PIPE,
            stderr=errors,
            stdin=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
    try:
        ready = _ready_line(process, log)
        yield Launched(
            process=process,
            url=ready["url"],
            token=Path(ready["token_file"]).read_text().strip(),
            target=ready["target"],
            data_dir=data_dir,
        )
    finally:
        _end(process)


def _ready_line(process: subprocess.Popen[str], log: Path) -> dict[str, Any]:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        process.wait()
        words = log.read_text(errors="replace")[-3000:]
        raise LaunchError(f"tilefarm-server up ended with code {process.returncode}:\n{words}")
    ready: dict[str, Any] = json.loads(line)
    return ready


def _end(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        process.terminate()
    try:
        process.wait(_END_SECS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    assert process.stdout is not None
    process.stdout.close()
