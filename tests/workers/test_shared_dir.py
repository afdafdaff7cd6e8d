"""Workers of a host may share a directory: nobody loses what another one uses, and the dead leave nothing."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np
import pytest

from sandbox.directory import remove
from workers.artifacts import ArtifactStore
from workers.children_dir import children_dir
from workers.errors import WorkerError
from workers.inputs import Parameter
from workers.messages import MeasureChunk, MeasurePolicy
from workers.reference import ReferenceCache
from workers.reference_files import read_reference, write_reference


def chunk(name: str) -> MeasureChunk:
    return MeasureChunk(
        chunk_id="c", search_id=1, target={}, module="", module_sha256=name, policy=MeasurePolicy(), trials=()
    )


def make(place: Path) -> None:
    ones = np.ones(4, dtype=np.float32)
    parameters = [Parameter(name="a", shape=(4,), dtype="float32")]
    write_reference(place, parameters=parameters, inputs=[ones], outputs={0: ones}, reduction_length=1)


class Host:
    """Two workers' caches in one directory, with room for nothing but what is in use."""

    def __init__(self, directory: Path) -> None:
        self.caches = [
            ReferenceCache(server=None, directory=directory, linker=None, timeout_secs=1.0, max_bytes=0)  # type: ignore[arg-type] - nothing is computed
            for _ in range(2)
        ]
        self.made: list[Path] = []

    def use(self, worker: int, name: str) -> AbstractContextManager[Path]:
        return self.caches[worker].using(chunk(name), self._make)

    def _make(self, place: Path) -> None:
        self.made.append(place)
        make(place)


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    (tmp_path / "references").mkdir()
    return Host(tmp_path / "references")


def test_no_worker_evicts_the_reference_that_another_one_uses(host: Host) -> None:
    with host.use(0, "a") as first, host.use(0, "a") as again, host.use(1, "b") as second:
        assert first == again
        assert [read_reference(place).outputs()[0].size for place in (first, second)] == [4, 4]
    with host.use(1, "c"):
        assert not first.exists()
        assert not second.exists()
    assert len(host.made) == 3


def test_one_that_is_evicted_before_it_is_used_is_made_again(host: Host) -> None:
    attempts: list[Path] = []

    def make_and_lose(place: Path) -> None:
        attempts.append(place)
        make(place)
        if len(attempts) == 1:
            remove(place)

    with host.caches[0].using(chunk("a"), make_and_lose) as place:
        assert read_reference(place).outputs()[0].size == 4
    assert len(attempts) == 2


def test_one_that_never_stays_is_the_farms_failure(host: Host) -> None:
    using = host.caches[0].using(chunk("a"), lambda _place: None)
    with pytest.raises(WorkerError, match="was made and is not there"), using:
        pass


def test_what_goes_wrong_while_it_is_used_is_not_taken_for_its_absence(host: Host) -> None:
    with pytest.raises(PermissionError), host.use(0, "a"):
        raise PermissionError("of something else")
    assert len(host.made) == 1


def test_what_the_dead_brought_into_no_place_goes_and_what_the_living_bring_stays(tmp_path: Path) -> None:
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    left = {
        pid: tmp_path / "artifacts" / f".{'a' * 64}.{pid}.1" for pid in (done.pid, os.getpid(), os.getppid())
    }
    ArtifactStore(directory=tmp_path / "artifacts").put_bytes("kept", b"code")
    for path in left.values():
        path.write_bytes(b"half of it")
    reference = tmp_path / "references" / f".{'b' * 64}.{done.pid}.1"
    reference.mkdir(parents=True)
    (reference / "meta.json").write_text("{}")
    with children_dir(tmp_path):
        assert {pid for pid, path in left.items() if path.exists()} == {os.getppid()}
        assert not reference.exists()
    assert ArtifactStore(directory=tmp_path / "artifacts").get("kept") == b"code"
