"""A server's own life: it dies, is closed, is started again, and outlives who asked for it first."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from sandbox.errors import ForkServerDied
from sandbox.fork_server import ForkServer
from tests.sandbox.test_fork_server import ENTRIES, LIMITS, entry, process_exists, wait_until


def test_a_dead_server_is_a_typed_error_and_the_next_spawn_starts_another():
    with ForkServer([ENTRIES]) as server:
        first = server.pid
        with server.spawn(entry("hang"), limits=LIMITS) as child:
            os.kill(first, signal.SIGKILL)
            with pytest.raises(ForkServerDied):
                child.recv(5)
        wait_until(lambda: not process_exists(child.pid))
        with server.spawn(entry("echo"), limits=LIMITS) as child:
            child.send({"n": 1})
            assert child.recv(5)[0] == {"echo": {"n": 1}}
        assert server.pid != first


def test_a_preload_that_fails_says_which_and_why():
    server = ForkServer(["json", "no.such_module"])
    with pytest.raises(ForkServerDied, match=r"no\.such_module.*ModuleNotFoundError"):
        server.start()
    assert server.pid is None


def test_closing_the_server_ends_its_children():
    server = ForkServer([ENTRIES])
    child = server.spawn(entry("hang"), limits=LIMITS)
    server.close()
    wait_until(lambda: not process_exists(child.pid))
    child.close()


def test_a_closed_server_is_not_started_again():
    """A request that waited for its turn would else load TVM anew while its process ends."""
    server = ForkServer([ENTRIES])
    server.close()
    with pytest.raises(ForkServerDied, match="was closed"):
        server.spawn(entry("echo"), limits=LIMITS)
    assert server.pid is None


def test_what_children_of_a_killed_parent_left_goes_with_the_next_start(tmp_path):
    program = (
        "import os, pathlib, sys\n"
        "from sandbox.fork_server import ForkServer; from sandbox.limits import Limits\n"
        f"server = ForkServer(['{ENTRIES}'], work_dir=pathlib.Path(sys.argv[1]))\n"
        f"child = server.spawn('{ENTRIES}:echo', limits=Limits())\n"
        "print(child.directory, flush=True); os.kill(os.getpid(), 9)"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    run = subprocess.run(command, check=False, capture_output=True, text=True)
    assert run.returncode == -signal.SIGKILL, run.stderr
    assert Path(run.stdout.strip()).is_dir()
    predecessors = tmp_path / f"tilefarm-child-{os.getpid()}-x"
    predecessors.mkdir()
    os.utime(predecessors, (1, 1))
    living, other = tmp_path / f"tilefarm-child-{os.getppid()}-x", tmp_path / "tilefarm-other"
    living.mkdir()
    other.mkdir()
    with ForkServer([ENTRIES], work_dir=tmp_path), ForkServer([ENTRIES], work_dir=tmp_path):
        pass
    assert sorted(tmp_path.iterdir()) == sorted([living, other])


def test_a_server_started_on_a_thread_outlives_that_thread():
    server = ForkServer([ENTRIES])
    thread = threading.Thread(target=server.start)
    thread.start()
    thread.join()
    time.sleep(0.2)
    with server, server.spawn(entry("echo"), limits=LIMITS) as child:
        child.send({"n": 2})
        assert child.recv(5)[0] == {"echo": {"n": 2}}
