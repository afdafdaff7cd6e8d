"""A disk that is really full, a home that is really read-only, and no network at all: compiles get records.

The child that compiles has namespaces of its own for file systems and network: nothing has to be undone.
"""

import json
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.client.test_cli import module_file
from tests.client.test_lock import locked

__all__ = ["locked", "module_file"]
#: Without privileges, and as root where the kernel grants ordinary users no namespaces.
_NAMESPACES = (
    ["unshare", "--user", "--map-root-user", "--mount", "--net"],
    ["unshare", "--mount", "--net"],
)
_ROOT = Path(__file__).parents[2]
_MOUNTS = {
    "full": 'mount -t tmpfs -o size=64k tmpfs "$1"; head -c 1M /dev/zero > "$1/ballast" || true',
    "read-only": 'mount -t tmpfs -o ro tmpfs "$1"',
}


@cache
def namespace() -> list[str] | None:
    """The command that gives a child mounts of its own; None where this host allows none."""
    for words in _NAMESPACES:
        try:
            tried = subprocess.run(
                [*words, "mount", "-t", "tmpfs", "tmpfs", "/mnt"], capture_output=True, check=False
            )
        except OSError:
            return None
        if tried.returncode == 0:
            return words
    return None


@pytest.mark.parametrize("kind", _MOUNTS)
def test_a_compile_gets_its_records_where_nothing_can_be_kept(
    kind: str, locked: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    words = namespace()
    if words is None:
        pytest.skip("this host lets nobody mount a file system, not even in a namespace of their own")
    home = tmp_path_factory.mktemp("home")
    script = f'set -e; {_MOUNTS[kind]}; exec "$2" -m tests.client.compile_on_disk "$1" "$3"'
    done = subprocess.run(
        [*words, "sh", "-c", script, "sh", str(home), sys.executable, str(locked)],
        capture_output=True,
        text=True,
        check=False,
        cwd=_ROOT,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["hit"], told["missed"], told["model"]) == (True, True, True)
    # Nothing was kept: each connection asked for itself.
    assert told["requests"] == 5
    assert told["written"] == (["ballast"] if kind == "full" else [])
    assert "Traceback" not in done.stderr
    # By the lock file, without a wait for a service that nobody reaches: ten seconds.
    assert told["locked"]
    assert told["locked_secs"] < 5.0
    assert told["networks"] == ["lo"]
    assert all(command.startswith("tilefarm submit ") for command in told["commands"])
