"""A full disk is the worker's failure: no candidate is blamed, and what it touched is done again."""

import shutil
import threading

from tests.workers.conftest import EMPTY_TRACE
from workers import disk
from workers.messages import TrialUnbuilt


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


def test_other_errors_are_the_candidates_own():
    assert disk.says_full("ld ended with 1: No space left on device")
    assert not disk.says_full("std::bad_alloc")
    assert not disk.says_full(None)
