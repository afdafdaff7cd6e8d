"""An embedded service for as long as a `with` lasts, started by its own command in its own directory."""

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_READY_SECS = 120.0
_END_SECS = 30.0


class DemoError(RuntimeError):
    """The demonstration cannot go on, and says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedded:
    url: str
    token: str
    #: Profile name of this machine's CPU.
    profile: str
    target: dict[str, object]


@contextmanager
def embedded_service(data_dir: Path) -> Iterator[Embedded]:
    """DemoError where it does not come up, with the end of its logs."""
    command = [sys.executable, "-m", "services.server.cli", "up", "--data-dir", str(data_dir)]
    # What the user's shell says of another service is not meant for this one.
    env = {name: value for name, value in os.environ.items() if not name.startswith("TILEFARM_")}
    log = data_dir.parent / "service.log"
    with log.open("w", encoding="utf-8") as file:
        process = subprocess.Popen(
            [*command, "--port", "0", "--ready-json"], stdout=subprocess.PIPE, stderr=file, text=True, env=env
        )
    try:
        yield _ready(process, data_dir, log)
    finally:
        _end(process)


def logs_tail(data_dir: Path, *, max_lines: int = 15) -> str:
    """The last lines of every role's log."""
    parts = []
    for path in sorted((data_dir / "logs").glob("*.log")):
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()[-max_lines:]
        parts.append("\n".join([f"--- {path.name}", *lines]))
    return "\n".join(parts)


def _ready(process: "subprocess.Popen[str]", data_dir: Path, log: Path) -> Embedded:
    assert process.stdout is not None
    deadline = time.monotonic() + _READY_SECS
    while (left := deadline - time.monotonic()) > 0:
        if not select.select([process.stdout], [], [], left)[0]:
            break
        line = process.stdout.readline()
        if not line:
            break
        if line.startswith("{") and (ready := json.loads(line)).get("event") == "ready":
            token = Path(ready["token_file"]).read_text(encoding="utf-8").strip()
            return Embedded(url=ready["url"], token=token, profile=ready["profile"], target=ready["target"])
    said = log.read_text(encoding="utf-8", errors="replace")[-3000:]
    raise DemoError(f"the service did not come up\n{said}\n{logs_tail(data_dir)}")


def _end(process: "subprocess.Popen[str]") -> None:
    if process.poll() is None:
        process.terminate()
    try:
        process.wait(_END_SECS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        raise DemoError("the service did not end by itself and was killed") from None
    finally:
        if process.stdout is not None:
            process.stdout.close()
