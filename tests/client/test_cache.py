"""What is kept on disk: shared by processes, confirmed by ETag, used while the service is away, harmless."""

import errno
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
import tvm
from tvm import relax
from tvm.s_tir.meta_schedule.database import MemoryDatabase
from tvm.target import Target

import tilefarm
from tests.client.conftest import TARGET, FakeService, MMRelu, database, problem, record, renamed
from tests.client.test_database import SHASH, compiled, is_tuned
from tilefarm import answers, applied, cache, graph, lookups, visible
from tilefarm.cache import DiskCache

TVM = tvm.__version__
KEPT = answers.parse_record(record(), TVM)


def question(number: int) -> str:
    return answers.question_key("key", TVM, f"{number:016x}")


def refusing(_: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("nobody there")


def aged(tmp_path: Path, secs: float) -> None:
    for path in (tmp_path / "cache" / "answers-3").glob("*/*/*"):
        os.utime(path, (time.time() - secs, time.time() - secs))
    for path in (tmp_path / "cache" / "answers-3").glob("*/misses"):
        kept = json.loads(path.read_bytes()[32:])
        body = json.dumps({key: [at - secs, nearest] for key, (at, nearest) in kept.items()}).encode()
        path.write_bytes(hashlib.sha256(body).digest() + body)


def test_the_next_process_asks_nothing(service: FakeService) -> None:
    assert is_tuned(compiled(database(service)).mod)
    assert is_tuned(compiled(database(service)).mod)
    assert len(service.requests) == 1


def test_another_service_another_target_and_another_cache_share_nothing(
    service: FakeService, tmp_path: Path
) -> None:
    compiled(database(service))
    compiled(database(service, cache_dir=tmp_path / "other"))
    other = tilefarm.connect("http://else.test", transport=httpx.MockTransport(service))
    compiled(other)
    assert len(service.requests) == 3
    assert compiled(database(service, on_miss="silent"), target={**TARGET, "num-cores": 4}) is None
    assert len(service.requests) == 4


def test_an_old_answer_is_confirmed_without_being_sent_again(service: FakeService, tmp_path: Path) -> None:
    compiled(database(service))
    aged(tmp_path, lookups.FRESH_SECS + 1)
    assert is_tuned(compiled(database(service)).mod)
    assert [request.method for request in service.requests] == ["POST", "GET"]
    assert is_tuned(compiled(database(service)).mod)
    assert len(service.requests) == 2


def test_an_empty_answer_confirms_nothing(service: FakeService, tmp_path: Path) -> None:
    compiled(database(service))
    aged(tmp_path, lookups.FRESH_SECS + 1)
    service.routes["GET /v1/lookup"] = lambda _: httpx.Response(200)
    compiled(database(service))
    (kept,) = (tmp_path / "cache" / "answers-3").glob("*/[0-9a-f][0-9a-f]/*")
    assert time.time() - kept.stat().st_mtime > lookups.FRESH_SECS


def test_a_newer_or_revoked_record_replaces_the_kept_one(service: FakeService, tmp_path: Path) -> None:
    compiled(database(service))
    service.records[SHASH] = record(etag="e2", run_secs=[5e-6])
    aged(tmp_path, lookups.FRESH_SECS + 1)
    found = database(service).query_tuning_record(renamed("main"), Target(TARGET), "main")
    assert [float(secs) for secs in found.run_secs] == [5e-6]
    service.records.clear()
    aged(tmp_path, lookups.FRESH_SECS + 1)
    assert compiled(database(service, on_miss="silent")) is None
    assert compiled(database(refusing, on_miss="silent")) is None


def test_a_miss_is_kept_for_a_short_time(service: FakeService, tmp_path: Path) -> None:
    known = dict(service.records)
    service.records.clear()
    assert compiled(database(service, on_miss="silent")) is None
    service.records.update(known)
    assert compiled(database(service, on_miss="silent")) is None
    assert len(service.requests) == 1
    aged(tmp_path, lookups.REMEMBER_MISS_SECS + 1)
    assert is_tuned(compiled(database(service)).mod)


def test_after_tuning_a_refresh_finds_what_was_missed_or_bettered_a_moment_ago(service: FakeService) -> None:
    known = dict(service.records)
    service.records.clear()
    db = database(service, on_miss="silent")
    assert compiled(db) is None
    service.records.update(known)
    assert compiled(db) is None
    db.refresh()
    assert is_tuned(compiled(db).mod)
    service.records[SHASH] = record(etag="e2", run_secs=[5e-6])
    later = database(service)
    later.refresh()
    found = later.query_tuning_record(renamed("main"), Target(TARGET), "main")
    assert [float(secs) for secs in found.run_secs] == [5e-6]


def test_with_the_service_away_what_was_kept_still_counts_for_a_week(
    service: FakeService, tmp_path: Path
) -> None:
    compiled(database(service))
    aged(tmp_path, lookups.FRESH_SECS + 1)
    assert is_tuned(compiled(database(refusing)).mod)
    aged(tmp_path, lookups.USABLE_SECS + 1)
    assert compiled(database(refusing)) is None


def test_offline_makes_no_request_and_needs_no_service(
    service: FakeService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled(database(service))
    aged(tmp_path, lookups.USABLE_SECS + 1)
    db = database(service, mode="offline")
    assert is_tuned(compiled(db).mod)
    assert compiled(db, target={**TARGET, "num-cores": 4}) is None
    assert len(service.requests) == 1
    monkeypatch.setenv("TILEFARM_DATA_DIR", str(tmp_path / "nothing"))
    assert compiled(tilefarm.connect(mode="offline")) is None


def test_the_farms_target_is_known_while_the_service_is_away(service: FakeService) -> None:
    view = {"name": "local", "target": TARGET}
    service.routes["GET /v1/targets/local"] = lambda _: httpx.Response(200, json=view)
    assert database(service).target("local").export()["mcpu"] == "x86-64-v3"
    service.requests.clear()
    for db in (database(refusing), database(service, mode="offline")):
        assert str(db.target("local")) == str(Target(TARGET))
    assert service.requests == []
    away = FakeService()
    away.routes["GET /v1/targets/local"] = lambda _: problem(503, "overloaded", "try again")
    assert str(database(away).target("local")) == str(Target(TARGET))
    with pytest.raises(tilefarm.OfflineError):
        database(service, mode="offline").target("board")
    with pytest.raises(tilefarm.ProblemError):
        database(service).target("board")


@pytest.mark.parametrize("damage", [b"", b"{}", b"x" * 100, None], ids=["empty", "json", "noise", "torn"])
def test_a_damaged_file_is_no_answer_and_is_replaced(
    service: FakeService, tmp_path: Path, damage: bytes | None
) -> None:
    compiled(database(service))
    (path,) = (tmp_path / "cache" / "answers-3").glob("*/*/*")
    path.write_bytes(path.read_bytes()[:-7] if damage is None else damage)
    assert is_tuned(compiled(database(service)).mod)
    assert len(service.requests) == 2
    assert is_tuned(compiled(database(service)).mod)
    assert len(service.requests) == 2


def test_a_pipe_in_the_place_of_a_file_holds_nobody_up(service: FakeService, tmp_path: Path) -> None:
    compiled(database(service))
    found = [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]
    assert len(found) == 2  # the answer, and that it applies
    for path in found:
        path.unlink()
        os.mkfifo(path)
    os.mkfifo((tmp_path / "cache" / "answers-3").glob("*").__next__() / "misses")
    assert is_tuned(compiled(database(service)).mod)
    assert len(service.requests) == 2


def test_a_file_under_another_questions_name_is_no_answer(tmp_path: Path) -> None:
    kept = DiskCache(tmp_path)
    kept.write({question(1): KEPT})
    one, two = kept._path(question(1)), kept._path(question(2))
    two.parent.mkdir(exist_ok=True)
    one.rename(two)
    assert kept.read(question(2), TVM) is None


def test_a_record_of_another_tvm_and_a_file_of_the_future_are_no_answers(tmp_path: Path) -> None:
    kept = DiskCache(tmp_path)
    kept.write({question(1): KEPT})
    assert kept.read(question(1), "0.1") is None
    assert kept.read(question(1), TVM).answer == KEPT
    os.utime(kept._path(question(1)), (time.time() + 3600,) * 2)
    assert kept.read(question(1), TVM) is None


@pytest.mark.parametrize("kind", ["a file in the way", "a full disk", "nothing may be written"])
def test_where_nothing_can_be_kept_a_compile_still_gets_its_record(
    service: FakeService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    directory = tmp_path / "home"
    if kind == "a file in the way":
        directory.write_text("")
    else:
        code = errno.ENOSPC if kind == "a full disk" else errno.EROFS

        def failing(*_: Any, **__: Any) -> Any:
            raise OSError(code, os.strerror(code))

        name = "replace" if kind == "a full disk" else "mkdir"
        monkeypatch.setattr(Path, name, failing)
    for _ in range(2):
        assert is_tuned(compiled(database(service, cache_dir=directory / "cache")).mod)
    assert len(service.requests) == 2
    assert not list(tmp_path.rglob(".new-*"))


def test_it_stays_within_its_bound_and_drops_the_oldest(tmp_path: Path) -> None:
    size = len(json.dumps(KEPT.as_json()))
    kept = DiskCache(tmp_path / "answers-3" / "s", max_bytes=cache._SHARDS * size * 3)
    shard = [number for number in range(3000) if kept._path(question(number)).parent.name == "00"]
    for age, number in enumerate(shard[:20]):
        kept.write({question(number): KEPT})
        os.utime(kept._path(question(number)), (time.time() - 1000 + age,) * 2)
    count, size_bytes = cache.usage(tmp_path)
    assert 2 <= count < 20
    assert size_bytes <= size * 3
    assert kept.read(question(shard[19]), TVM) is not None
    assert kept.read(question(shard[0]), TVM) is None
    assert DiskCache(tmp_path / "none", max_bytes=0).write({question(1): KEPT}) is None
    assert not (tmp_path / "none").exists()


def test_what_a_dead_process_left_is_cleared_away(tmp_path: Path) -> None:
    kept = DiskCache(tmp_path)
    kept.write({question(1): KEPT})
    old, new = (kept._path(question(1)).with_name(name) for name in (".new-old", ".new-new"))
    old.write_text("x")
    new.write_text("x")
    os.utime(old, (time.time() - 7200,) * 2)
    kept.write({question(1): KEPT})
    assert not old.exists()
    assert new.exists()


#: Writes and reads twelve answers among others that do; prints how many were wrong. It loads no TVM.
_HAMMER = """
import json, sys
from pathlib import Path
from tilefarm import cache
from tilefarm.answers import Missing, Record, question_key
def answer(number):
    if number % 2:
        return Missing(nearest=f"n{number}" * 100)
    module = json.dumps({"root_index": 0, "nodes": [{"type": "ir.IRModule"}] * 100})
    return Record(record_id=str(number), module=module, trace=[], run_secs=(1.0,), tvm_version="t")
kept = cache.DiskCache(Path(sys.argv[1]), max_bytes=cache._SHARDS * 20_000)
wrong = 0
for turn in range(200):
    number = (int(sys.argv[2]) * 7 + turn) % 12
    question = question_key("key", "t", f"{number:016x}")
    found = kept.read(question, "t")
    wrong += found is not None and found.answer != answer(number)
    kept.write({question: answer(number)})
print(wrong)
"""


def test_ten_processes_share_a_directory(tmp_path: Path) -> None:
    """No answer is ever another question's, or torn; of misses some may be lost, and are asked again."""
    processes = [
        subprocess.Popen([sys.executable, "-c", _HAMMER, str(tmp_path), str(seed)], stdout=subprocess.PIPE)
        for seed in range(10)
    ]
    assert [process.communicate(timeout=60)[0].strip() for process in processes] == [b"0"] * 10
    assert not list(tmp_path.rglob(".new-*"))
    kept = DiskCache(tmp_path)
    there = [kept.read(answers.question_key("key", "t", f"{number:016x}"), "t") for number in range(12)]
    assert [found.answer.record_id for found in there[::2]] == ["0", "2", "4", "6", "8", "10"]
    misses = {found.answer.nearest for found in there[1::2] if found is not None}
    assert misses
    assert misses <= {f"n{number}" * 100 for number in range(1, 12, 2)}


def test_the_misses_that_are_kept_are_bounded_and_a_damaged_file_is_none(tmp_path: Path) -> None:
    kept = DiskCache(tmp_path)
    for batch in range(3):
        kept.write({question(number): answers.Missing() for number in range(batch * 500, batch * 500 + 500)})
    assert kept.read(question(0), TVM) is None
    assert kept.read(question(500), TVM).answer == answers.Missing()
    assert (tmp_path / "misses").stat().st_size < 120_000
    (tmp_path / "misses").write_bytes((tmp_path / "misses").read_bytes()[:-3])
    assert DiskCache(tmp_path).read(question(500), TVM) is None
    kept.write({question(1): answers.Missing(nearest="x")})
    assert DiskCache(tmp_path).read(question(1), TVM).answer == answers.Missing(nearest="x")


def test_a_module_is_checked_before_it_is_kept_and_again_where_others_could_write(
    service: FakeService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked: list[str] = []
    check = graph.check
    monkeypatch.setattr(graph, "check", lambda text: (checked.append(text), check(text)))

    def compiled_anew() -> Any:
        applied._loaded.cache_clear()
        return compiled(database(service, on_miss="silent"))

    assert is_tuned(compiled_anew().mod)
    assert is_tuned(compiled_anew().mod)
    assert len(checked) == 1
    (path,) = (tmp_path / "cache" / "answers-3").glob("*/*/*")
    path.chmod(0o666)
    assert is_tuned(compiled_anew().mod)
    assert len(checked) == 1  # the same content, which was applied before
    shutil.rmtree(tmp_path / "cache" / "applied-1")
    assert is_tuned(compiled_anew().mod)
    assert len(checked) == 2
    shutil.rmtree(tmp_path / "cache" / "answers-3")
    service.records[SHASH] = record(module='{"root_index": 1, "nodes": []}')
    assert compiled_anew() is None
    assert not list((tmp_path / "cache" / "answers-3").glob("*/*/*"))


def test_a_record_that_is_gone_is_a_miss_and_a_miss_that_was_tuned_a_record(tmp_path: Path) -> None:
    kept = DiskCache(tmp_path)
    for answer in (KEPT, answers.Missing(), KEPT):
        kept.write({question(1): answer})
        assert kept.read(question(1), TVM).answer == answer
    assert kept.read(question(2), TVM) is None


def applied_to_both(db: Any) -> Any:
    both = tvm.IRModule({"mm_relu": MMRelu["mm_relu"], "plain": _plain()})
    with Target(TARGET), db:
        return relax.transform.MetaScheduleApplyDatabase()(both)


def test_one_request_asks_for_the_whole_module_of_an_apply_pass(service: FakeService) -> None:
    db = database(service, on_miss="silent")
    assert is_tuned(applied_to_both(db))
    assert [len(body["workloads"]) for body in service.bodies()] == [2]
    assert (db.stats().hits, db.stats().misses) == (1, 1)


def test_a_union_asks_for_the_whole_module_too(service: FakeService) -> None:
    union = tilefarm.OrderedUnionDatabase(MemoryDatabase(), database(service, on_miss="silent"))
    assert is_tuned(applied_to_both(union))
    assert [len(body["workloads"]) for body in service.bodies()] == [2]


def test_while_the_service_is_away_no_module_is_hashed_as_a_whole(
    service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at: list[object] = []
    monkeypatch.setattr(visible, "module_being_compiled", lambda: looked_at.append(1))
    db = database(refusing, on_miss="silent")
    for symbol in ("a", "b", "c"):
        assert compiled(db, renamed(symbol)) is None
    assert len(looked_at) == 1


def _plain() -> Any:
    from tvm import te

    x = te.placeholder((16,), name="x")
    return te.create_prim_func([x, te.compute((16,), lambda i: x[i] * 2.0)])
