"""A worker that was killed leaves its children's directories to its successor, which removes them."""

import os
import subprocess
import sys
from pathlib import Path

from workers.children_dir import children_dir


def _leave(work_dir: Path, pid: int) -> Path:
    left = work_dir / "children" / str(pid) / "tilefarm-child-x"
    left.mkdir(parents=True)
    (left / "kernel.o").write_text("code")
    return left


def test_what_a_predecessor_of_the_same_number_left_goes(tmp_path: Path) -> None:
    left = _leave(tmp_path, os.getpid())
    with children_dir(tmp_path) as own:
        assert own == left.parent
        assert list(own.iterdir()) == []
    assert not own.exists()


def test_what_the_dead_left_goes_and_what_the_living_have_stays(tmp_path: Path) -> None:
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    dead, living = _leave(tmp_path, done.pid), _leave(tmp_path, os.getppid())
    with children_dir(tmp_path):
        assert not dead.exists()
        assert living.exists()
