"""A full disk is the worker's failure: no candidate is blamed, and what it touched is done again."""

import os
import shutil
import threading

import pytest

from tests.workers.conftest import EMPTY_TRACE
from workers import disk
from workers.errors import DiskFull
from workers.messages import TrialUnbuilt
from workers.reference import ReferenceCache


def test_a_candidate_that_could_not_be_written_is_given_back(bench, authored):
    linker = bench.directory / "full-ld"
    linker.write_text("#!/bin/sh\necho 'final link failed: No space left on device' >&2\nexit 1\n")
    linker.chmod(0o755)
    working, bench.linker = bench.linker, str(linker)
    bench.started.clear()
    try:
        # Its reference is there already; only the candidate is linked.
        bench.measure(authored["scale"], EMPTY_TRACE)
    finally:
        bench.linker = working
    given_back = [notice for notice in bench.started if isinstance(notice, TrialUnbuilt)]
    assert bench.outcomes == []
    assert len(given_back) == 1
    assert "No space left" in given_back[0].reason
    assert bench.holding.held() == []


def test_a_chunk_waits_until_there_is_space(tmp_path, monkeypatch):
    monkeypatch.setattr(disk, "_POLL_SECS", 0.01)
    free = [0, 0, 1 << 30]
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage._replace(free=free.pop(0)))
    disk.await_space(tmp_path / "not" / "there", given_up=lambda: False)
    assert free == []


def test_nobody_waits_for_a_chunk_that_was_dropped(tmp_path, monkeypatch):
    monkeypatch.setattr(disk, "_NEEDED_BYTES", 1 << 62)
    waiting = threading.Thread(target=disk.await_space, args=(tmp_path,), kwargs={"given_up": lambda: True})
    waiting.start()
    waiting.join(5.0)
    assert not waiting.is_alive()


def test_a_chunk_is_left_to_others_where_the_disk_stays_full(tmp_path, monkeypatch):
    monkeypatch.setattr(disk, "_NEEDED_BYTES", 1 << 62)
    monkeypatch.setattr(disk, "_POLL_SECS", 0.01)
    monkeypatch.setattr(disk, "_MOST_SECS", 0.1)
    with pytest.raises(DiskFull, match="no space"):
        disk.await_space(tmp_path, given_up=lambda: False)


def test_references_leave_half_of_a_small_disk_to_candidates(tmp_path, monkeypatch):
    cache = ReferenceCache(server=None, directory=tmp_path, linker=None, timeout_secs=1.0, max_bytes=2 << 30)
    for age, name in ((1, "a"), (2, "b"), (3, "c")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "meta.json").write_bytes(b"x" * 1000)
        os.utime(tmp_path / name / "meta.json", (age, age))
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage._replace(total=4500))
    cache.shrink(keep=tmp_path / "c")
    assert sorted(place.name for place in tmp_path.iterdir()) == ["b", "c"]


def test_other_errors_are_the_candidates_own():
    assert disk.says_full("ld ended with 1: No space left on device")
    assert not disk.says_full("std::bad_alloc")
    assert not disk.says_full(None)
