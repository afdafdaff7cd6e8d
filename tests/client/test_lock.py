"""Lock files: `tilefarm lock` pins exactly what a compile would take, and builds with it make no request."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from tvm.target import Target

import tilefarm
from tests.client.conftest import TARGET, FakeService, database, record, renamed
from tests.client.test_cli import PYTHON, module_file, run
from tests.client.test_database import SHASH, compiled, is_tuned, runs_right
from tilefarm import lockfile

__all__ = ["module_file"]


@pytest.fixture
def locked(service: FakeService, module_file: Path, tmp_path: Path) -> Path:
    """The lock file of MMRelu for the profile `local`."""
    service.routes["GET /v1/targets/local"] = lambda _: httpx.Response(200, json={"target": TARGET})
    path = tmp_path / "tilefarm.lock"
    assert run(service, "lock", str(module_file), "-o", str(path)) == 0
    service.requests.clear()
    return path


def test_a_build_with_a_lock_file_makes_no_request(
    service: FakeService, locked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILEFARM_LOCK", str(locked))
    for db in (tilefarm.connect(), tilefarm.connect(mode="offline"), database(service)):
        schedule = compiled(db, target=db.target("local").export())
        assert is_tuned(schedule.mod)
        assert runs_right(schedule.mod, "mm_relu")
        assert db.stats().hits == 1
    assert service.requests == []


def test_only_the_lock_file_answers(service: FakeService, locked: Path) -> None:
    service.records[SHASH] = record(etag="e2", run_secs=[1e-9])
    db = database(service, lock=locked, on_miss="silent")
    found = db.query_tuning_record(renamed("f"), Target(TARGET), "f")
    assert [float(secs) for secs in found.run_secs] == [1e-5, 1.1e-5]
    assert compiled(db, target={**TARGET, "num-cores": 4}) is None
    assert service.requests == []


def test_a_function_without_a_record_is_pinned_as_such(
    service: FakeService, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, path = tmp_path / "kernels.py", tmp_path / "x.lock"
    source.write_text(PYTHON)
    words = ("lock", str(source), "--target", json.dumps(TARGET), "-o", str(path))
    assert run(service, *words, "--require-all") == 5
    assert not path.exists()
    assert run(service, *words) == 0
    assert "without a record: Double, triple" in capsys.readouterr().err
    assert list(lockfile.read(path).records.values()) == [None, None]
    assert lockfile.read(path).profile is None


def test_a_record_that_does_not_apply_is_not_pinned(
    service: FakeService, module_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    service.records[SHASH] = record(trace=[[["EnterPostproc", [], [], []]], [[0, 1]]])
    words = ("--target", json.dumps(TARGET), "-o", str(tmp_path / "x.lock"), "--require-all")
    assert run(service, "lock", str(module_file), *words) == 5
    assert "does not apply" in capsys.readouterr().err


def _cut(text: str) -> str:
    return text[: len(text) // 2]


def _changed(text: str) -> str:
    return text.replace('"x86-64-v3"', '"x86-64-v4"')


def _of_the_future(text: str) -> str:
    return text.replace("tilefarm-lock/1", "tilefarm-lock/9")


def _empty(_: str) -> str:
    return "[]"


@pytest.mark.parametrize("damage", [_cut, _changed, _of_the_future, _empty])
def test_a_lock_file_that_is_not_whole_stops_the_build_at_once(locked: Path, damage: Any) -> None:
    locked.write_text(damage(locked.read_text()))
    with pytest.raises(tilefarm.LockError, match=r"tilefarm\.lock"):
        tilefarm.connect(mode="offline", lock=locked)


def test_a_lock_file_that_is_not_there_stops_the_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, service: FakeService, module_file: Path
) -> None:
    monkeypatch.setenv("TILEFARM_LOCK", str(tmp_path / "none"))
    with pytest.raises(tilefarm.LockError):
        tilefarm.connect(mode="offline")
    words = ("--target", json.dumps(TARGET), "-o", str(tmp_path / "no" / "dir" / "x.lock"))
    assert run(service, "lock", str(module_file), *words) == 2


def test_the_same_records_make_the_same_file(
    service: FakeService, module_file: Path, locked: Path, tmp_path: Path
) -> None:
    again = tmp_path / "again.lock"
    assert run(service, "lock", str(module_file), "-o", str(again)) == 0
    assert again.read_bytes() == locked.read_bytes()
    assert lockfile.read(again).functions == {SHASH: ["mm_relu"]}
