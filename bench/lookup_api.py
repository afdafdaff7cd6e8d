"""An api process on a database, for a benchmark that asks it."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx

from services.server.deathsig import DIE_WITH_PARENT

_READY_SECS = 60.0


@contextmanager
def running_api(database_url: str) -> Iterator[str]:
    """`tilefarm-server api` on a free port; yields its URL."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    env = {
        **{name: value for name, value in os.environ.items() if not name.startswith("TILEFARM_")},
        "TILEFARM_DATABASE_URL": database_url,
        "TILEFARM_PORT": str(port),
    }
    process = subprocess.Popen(
        [*DIE_WITH_PARENT, sys.executable, "-m", "services.server.cli", "api"],
        env=env,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    url = f"http://127.0.0.1:{port}"
    try:
        _wait(process, url)
        yield url
    finally:
        process.terminate()
        process.wait(20)


def _wait(process: subprocess.Popen[bytes], url: str) -> None:
    deadline = time.monotonic() + _READY_SECS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            if httpx.get(f"{url}/readyz", timeout=2.0).is_success:
                return
        except httpx.TransportError:
            time.sleep(0.1)
    raise RuntimeError("the api did not become ready")
