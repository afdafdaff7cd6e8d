"""`make up` as a person sees it: what it prints, and that Ctrl-C ends it cleanly."""

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from tests.system.service import Service


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGHUP])
def test_up_says_where_everything_is_and_ctrl_c_leaves_nothing(
    tmp_path: Path, signum: signal.Signals
) -> None:
    """Nor does a terminal that is closed: each part is told to end, and the worker gives back what it has."""
    home = tmp_path / "home"
    env = {**os.environ, "HOME": str(home), "XDG_DATA_HOME": str(home / "data")}
    command = [sys.executable, "-m", "services.server.cli", "up", "--port", "0"]
    # Whoever runs the tests in the background may have both ignored, and what is ignored is inherited.
    with _at_default(signum):
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env=env, start_new_session=True
        )
    with process:
        try:
            assert process.stdout is not None
            printed = ""
            while "Ctrl-C" not in printed:
                line = process.stdout.readline()
                assert line, printed
                printed += line
            token = home / "data" / "tilefarm" / "token"
            assert "http://127.0.0.1:" in printed
            assert "local" in printed
            assert "mcpu=" in printed
            assert str(token) in printed
            assert stat.S_IMODE(token.stat().st_mode) == 0o600
            tree = psutil.Process(process.pid).children(recursive=True)
            assert len(tree) >= 4
            os.killpg(process.pid, signum)
            assert process.wait(30) == 0
        finally:
            process.terminate()
    assert '"event": "part_ended"' in (home / "data" / "tilefarm" / "logs" / "up.log").read_text()
    _gone, alive = psutil.wait_procs(tree, timeout=5)
    assert not alive, [child.cmdline() for child in alive]


@contextmanager
def _at_default(signum: signal.Signals) -> Iterator[None]:
    before = signal.signal(signum, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signum, before)


def test_a_second_service_on_the_same_directory_is_refused_by_name(service: Service) -> None:
    command = [sys.executable, "-m", "services.server.cli", "up", "--data-dir", str(service.data_dir)]
    second = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert second.returncode == 1
    assert f"another tilefarm service runs on {service.data_dir}" in second.stderr
