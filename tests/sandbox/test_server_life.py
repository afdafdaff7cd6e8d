"""A server's own life: it dies, is closed, is started again, and outlives who asked for it first."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from sandbox import fork_server
from sandbox.errors import ForkServerDied, SpawnRefused
from sandbox.fork_server import ForkServer
from tests.sandbox.test_fork_server import ENTRIES, LIMITS, entry, process_exists
from tests.waiting import wait_until


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


@pytest.mark.parametrize(("limit", "below_any"), [("MOST_AGE_SECS", -1.0), ("MOST_GROWTH_BYTES", -(1 << 60))])
def test_a_server_that_is_old_or_has_grown_is_followed_by_another_and_its_children_live_on(
    monkeypatch, limit, below_any
):
    with ForkServer([ENTRIES]) as server:
        first = server.pid
        with server.spawn(entry("echo"), limits=LIMITS) as early:
            with server.spawn(entry("echo"), limits=LIMITS):
                assert server.pid == first
            monkeypatch.setattr(fork_server, limit, below_any)
            with server.spawn(entry("hang"), limits=LIMITS):
                second = server.pid
            assert second != first
            with server.spawn(entry("echo"), limits=LIMITS):
                assert server.pid == second, "of servers with children no more than one is left behind"
            early.send({"n": 1})
            assert early.recv(5)[0] == {"echo": {"n": 1}}
        assert not process_exists(early.pid)
        # The process can be gone a moment before its keeper says so.
        left = server._retired
        wait_until(lambda: not left.alive)
        assert not process_exists(first)
        with server.spawn(entry("echo"), limits=LIMITS):
            assert server.pid not in (first, second)
        wait_until(lambda: not process_exists(second))


def test_a_server_that_cannot_be_followed_stays(monkeypatch):
    with ForkServer([ENTRIES]) as server:
        first = server.pid
        monkeypatch.setattr(server, "_preload", ("no.such_module",))
        monkeypatch.setattr(fork_server, "MOST_AGE_SECS", -1.0)
        with server.spawn(entry("echo"), limits=LIMITS) as child:
            child.send({"n": 1})
            assert child.recv(5)[0] == {"echo": {"n": 1}}
        assert server.pid == first


def test_who_meant_to_ask_a_server_that_has_ended_asks_the_next(monkeypatch):
    with ForkServer([ENTRIES]) as server:
        old = server._running()
        old.retire()
        wait_until(lambda: not old.alive)
        running = server._running
        found = iter([old])
        monkeypatch.setattr(server, "_running", lambda: next(found, None) or running())
        with server.spawn(entry("echo"), limits=LIMITS) as child:
            child.send({"n": 1})
            assert child.recv(5)[0] == {"echo": {"n": 1}}


def test_a_preload_that_fails_says_which_and_why():
    server = ForkServer(["json", "no.such_module"])
    with pytest.raises(ForkServerDied, match=r"no\.such_module.*ModuleNotFoundError"):
        server.start()
    assert server.pid is None


def test_a_server_whose_imports_start_a_thread_does_not_start():
    """Whoever is to fork must not find that out with the first job."""
    server = ForkServer(["tests.sandbox.starts_a_thread"])
    with pytest.raises(ForkServerDied, match=r"after its imports other threads run \(.+\)"):
        server.start()
    server.close()


def test_a_server_with_a_second_thread_forks_nobody():
    with ForkServer(["tests.sandbox.starts_a_thread_when_told", ENTRIES]) as server:
        with server.spawn(entry("echo"), limits=LIMITS) as child:
            child.send({})
            child.recv(5)
        os.kill(server.pid, signal.SIGUSR1)
        wait_until(lambda: len(list(Path(f"/proc/{server.pid}/task").iterdir())) == 2)
        with pytest.raises(SpawnRefused, match=r"in the fork server other threads run \(.+\)"):
            server.spawn(entry("echo"), limits=LIMITS)


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
