"""Workers of one container share a work directory; those of two would remove each other's files."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from workers.children_dir import children_dir
from workers.errors import WorkDirShared

#: As in a container: a process of its own number 1.
ELSEWHERE = ("unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child")
HOLDS = """
import sys
from pathlib import Path
from workers.children_dir import children_dir
from workers.errors import WorkerError
try:
    with children_dir(Path(sys.argv[1])):
        print("there", flush=True)
        sys.stdin.read()
except WorkerError as error:
    print(type(error).__name__, error, flush=True)
"""


def worker(work_dir: Path, *, before: tuple[str, ...] = ()) -> subprocess.Popen[str]:
    """A process that holds the directory until its standard input ends."""
    words = [*before, sys.executable, "-c", HOLDS, str(work_dir)]
    return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.fixture(autouse=True)
def namespaces() -> None:
    if subprocess.run([*ELSEWHERE, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this host makes no PID namespace")


def test_a_worker_of_another_container_is_refused_by_name(tmp_path: Path) -> None:
    with children_dir(tmp_path) as own, worker(tmp_path, before=ELSEWHERE) as other:
        answer = said(other)
        assert answer.startswith(f"WorkDirShared {tmp_path} is in use")
        assert "TILEFARM_WORK_DIR" in answer
        assert own.is_dir()


def test_one_of_the_same_is_not(tmp_path: Path) -> None:
    with children_dir(tmp_path), worker(tmp_path) as other:
        assert said(other) == "there"
        other.communicate()
    with children_dir(tmp_path):
        pass


def test_a_container_that_is_gone_leaves_the_directory_to_the_next(tmp_path: Path) -> None:
    """However it went: the lock goes with the process."""
    with worker(tmp_path, before=ELSEWHERE) as first:
        assert said(first) == "there"
        with pytest.raises(WorkDirShared), children_dir(tmp_path):
            pass
        os.kill(first.pid, signal.SIGKILL)
        first.communicate()
        with children_dir(tmp_path):
            pass
    with worker(tmp_path, before=ELSEWHERE) as second:
        assert said(second) == "there"
        second.communicate()
