"""What was built once is loaded by the next process; the store stays small and never hurts."""

import os
import platform
import threading
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from db.states import Outcome, Purpose
from tests.workers.conftest import EMPTY_TRACE, Bench
from workers.artifacts import ArtifactStore, artifact_key

ORDER = {"module": "m", "trace": "t", "target": {"kind": "llvm"}, "linker": "ld"}


def _library(directory: Path, text: bytes) -> Path:
    path = directory / "kernel.so"
    path.write_bytes(text)
    return path


def test_a_library_comes_back_as_it_was(tmp_path: Path) -> None:
    store = ArtifactStore(directory=tmp_path / "store")
    assert store.get("a") is None
    store.put("a", _library(tmp_path, b"code" * 1000))
    assert store.get("a") == b"code" * 1000
    assert (tmp_path / "store" / "a").stat().st_size < 400


def test_the_least_recently_used_goes_first(tmp_path: Path) -> None:
    store = ArtifactStore(directory=tmp_path / "store", max_count=2)
    for age, key in ((1, "a"), (2, "b")):
        store.put(key, _library(tmp_path, b"x"))
        os.utime(tmp_path / "store" / key, (age, age))
    store.put("c", _library(tmp_path, b"x"))
    assert [store.get(key) for key in "abc"] == [None, b"x", b"x"]


def test_a_torn_file_is_no_library(tmp_path: Path) -> None:
    store = ArtifactStore(directory=tmp_path)
    (tmp_path / "a").write_bytes(b"half of it")
    assert store.get("a") is None


def test_nothing_to_keep_keeps_nothing(tmp_path: Path) -> None:
    store = ArtifactStore(directory=tmp_path / "store")
    store.put("a", tmp_path / "there is none")
    assert store.get("a") is None
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/etc/hostname")])
def test_what_a_child_put_in_the_place_of_its_library_is_none(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    store = ArtifactStore(directory=tmp_path / "store")
    make(tmp_path / "kernel.so")
    putting = threading.Thread(target=store.put, args=("a", tmp_path / "kernel.so"), daemon=True)
    putting.start()
    putting.join(5.0)
    assert not putting.is_alive()
    assert store.get("a") is None


@pytest.mark.skipif(platform.machine() != "x86_64", reason="versions of symbols differ by architecture")
def test_a_kernel_takes_its_mathematics_from_where_a_consumers_takes_it(
    bench: Bench, authored: dict[str, Any]
) -> None:
    """Linked without libm, logf binds to the oldest version, which is far slower."""
    (outcome,) = bench.measure(authored["log"], EMPTY_TRACE)
    assert outcome.outcome == Outcome.OK, outcome.error
    (kept,) = (bench.directory / "artifacts").iterdir()
    library = zlib.decompress(kept.read_bytes())
    assert b"logf" in library
    assert b"libm.so.6" in library
    assert b"GLIBC_2.27" in library


def test_all_that_decides_the_bytes_decides_the_key() -> None:
    key = artifact_key(ORDER, tvm_version="1")
    others = [{**ORDER, name: "other"} for name in ORDER]
    keys = {key, artifact_key(ORDER, tvm_version="2"), *(artifact_key(o, tvm_version="1") for o in others)}
    assert len(keys) == 6


def test_a_confirmation_builds_no_program_again(bench: Bench, authored: dict[str, Any]) -> None:
    (searched,) = bench.measure(authored["mm"], authored["mm_tiled"])
    (confirmed,) = bench.measure(authored["mm"], authored["mm_tiled"], purpose=Purpose.CONFIRM)
    assert (searched.outcome, confirmed.outcome) == (Outcome.OK, Outcome.OK)
    assert searched.stage_secs["replay"] > 0
    assert "replay" not in confirmed.stage_secs
    assert len(confirmed.run_secs or ()) == 3
