"""RemoteDatabase inside stock TVM's consumers: hits, misses, and whatever must not break a compile."""

import copy
import logging
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import relax
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.meta_schedule.database import MemoryDatabase
from tvm.target import Target

import tilefarm
from tests.checks import modules
from tests.client.conftest import (
    DEADLINE_SECS,
    TARGET,
    URL,
    FakeService,
    MMRelu,
    database,
    record,
    renamed,
    unanswered,
)
from tests.client.test_guards import measured
from tests.waiting import wait_until
from tilefarm import module
from tilefarm.cli import sources
from tilefarm.space import trace_json

SHASH = module.workload_of(MMRelu).shash


def compiled(db: Any, mod: Any = MMRelu, target: Any = TARGET) -> Any:
    return ms.tir_integration.compile_tir(db, mod, Target(target))


def is_tuned(mod: Any) -> bool:
    return "T.parallel" in mod.script()


def runs_right(mod: Any, symbol: str) -> bool:
    rng = np.random.default_rng(0)
    a, b = (rng.random((64, 64), dtype="float32") - 0.5 for _ in range(2))
    out = tvm.runtime.tensor(np.zeros((64, 64), "float32"))
    tvm.compile(mod, Target(TARGET))[symbol](tvm.runtime.tensor(a), tvm.runtime.tensor(b), out)
    return bool(np.allclose(out.numpy(), np.maximum(a @ b, 0), rtol=1e-4, atol=1e-5))


def test_compile_tir_gets_the_tuned_schedule_and_right_numbers(service: FakeService) -> None:
    db = database(service)
    schedule = compiled(db)
    assert is_tuned(schedule.mod)
    assert runs_right(schedule.mod, "mm_relu")
    assert db.stats().hits == 1
    assert db.stats().total_secs > 0


@pytest.mark.parametrize("name", ["dense_layout_free", "batch_matmul", "max_pool"])
def test_what_layout_rewriting_and_pooling_leave_in_a_trace_is_no_obstacle(
    service: FakeService, name: str
) -> None:
    asked = modules.module(name)
    workload = module.workload_of(asked)
    trace = trace_json(measured(name)[0].sch)
    service.records[workload.shash] = record(module=module.to_json(workload.module), trace=trace)
    db = database(service)
    assert compiled(db, asked) is not None
    assert (db.stats().hits, db.stats().errors) == (1, 0)


def test_the_apply_pass_works_unchanged(service: FakeService) -> None:
    db = database(service)
    with Target(TARGET), db:
        applied = relax.transform.MetaScheduleApplyDatabase()(MMRelu)
    assert is_tuned(applied)
    assert applied["mm_relu"].attrs["tirx.is_scheduled"]
    assert runs_right(applied, "mm_relu")


def test_a_scheduled_function_is_never_asked_about(service: FakeService) -> None:
    db = database(service)
    with Target(TARGET), db:
        apply = relax.transform.MetaScheduleApplyDatabase()
        once = apply(MMRelu)
        asked = len(service.requests)
        twice = apply(once)
    assert tvm_ffi.structural_equal(once, twice)
    assert len(service.requests) == asked == 1


def test_another_name_and_a_pattern_make_no_other_workload(service: FakeService) -> None:
    schedule = compiled(database(service), renamed("dense_7", op_pattern=4))
    assert is_tuned(schedule.mod)
    assert dict(schedule.mod["main"].attrs.items()) == {
        "global_symbol": "dense_7",
        "op_pattern": 4,
        "s_tir": True,
        "tirx.noalias": True,
    }


def test_a_missing_noalias_stays_missing(service: FakeService) -> None:
    asked = tvm.IRModule({"mm_relu": MMRelu["mm_relu"].without_attr("tirx.noalias")})
    schedule = compiled(database(service), asked)
    assert is_tuned(schedule.mod)
    assert "tirx.noalias" not in schedule.mod["main"].attrs


def test_a_query_under_another_global_var_keeps_it(service: FakeService) -> None:
    schedule = database(service).query_schedule(renamed("other"), Target(TARGET), "other")
    assert [variable.name_hint for variable in schedule.mod.get_global_vars()] == ["other"]
    assert is_tuned(schedule.mod)


def test_a_tuning_record_answers_as_stock_memory_database_does(service: FakeService) -> None:
    asked = module.workload_of(MMRelu).module
    ours = database(service).query_tuning_record(asked, Target(TARGET), "main")
    stock = MemoryDatabase()
    workload = stock.commit_workload(asked)
    stock.commit_tuning_record(
        ms.database.TuningRecord(ours.trace, workload, [1e-5, 1.1e-5], Target(TARGET), ours.args_info)
    )
    theirs = stock.query_tuning_record(asked, Target(TARGET), "main")
    assert tvm_ffi.structural_equal(ours.workload.mod, theirs.workload.mod)
    assert [float(secs) for secs in ours.run_secs] == [float(secs) for secs in theirs.run_secs]
    assert str(ours.trace) == str(theirs.trace)
    assert [str(arg) for arg in ours.args_info] == [str(arg) for arg in theirs.args_info]
    assert tvm_ffi.structural_equal(
        database(service).query_ir_module(asked, Target(TARGET), "main"),
        stock.query_ir_module(asked, Target(TARGET), "main"),
    )


@pytest.mark.parametrize("change", [{"num-cores": 4}, {"mcpu": "x86-64-v4"}, {"mattr": ["+avx512f"]}])
def test_another_target_is_a_miss(service: FakeService, change: dict[str, Any]) -> None:
    db = database(service, on_miss="silent")
    assert compiled(db, target={**TARGET, **change}) is None
    assert (db.stats().misses, db.stats().hits) == (1, 0)


def test_an_answer_for_another_target_is_refused(service: FakeService) -> None:
    honest = service._lookup

    def swapped(asked: dict[str, Any]) -> dict[str, Any]:
        return honest({**asked, "target": TARGET})

    service._lookup = swapped
    db = database(service, on_miss="silent")
    assert compiled(db, target={**TARGET, "num-cores": 4}) is None
    assert db.stats().errors == 1


def test_a_target_the_service_does_not_tune_for_is_never_asked(service: FakeService) -> None:
    db = database(service)
    assert compiled(db, target={"kind": "llvm"}) is None
    assert db.stats().skipped == 1
    assert service.requests == []


def test_a_miss_names_key_target_nearest_and_a_command_that_submits_it(
    service: FakeService, caplog: pytest.LogCaptureFixture
) -> None:
    service.records.clear()
    db = database(service)
    with caplog.at_level(logging.WARNING, logger="tilefarm"):
        assert compiled(db) is None
        assert compiled(db) is None
    (told,) = caplog.messages
    assert SHASH in told
    assert '"num-cores":2' in told
    assert "the same on 4 cores" in told
    command, verb, path = told.rpartition("to tune it: ")[2].split()
    assert (command, verb) == ("tilefarm", "submit")
    db.close()
    assert "conftest.py" not in Path(path).read_text(), "it names files of this machine"
    kept = sources.read(Path(path))
    assert kept.body["target"] == TARGET
    assert module.workload_of(sources.module_of(kept)).shash == SHASH
    assert db.stats().misses == 2


def test_a_miss_may_go_to_a_function_even_to_one_that_raises(service: FakeService) -> None:
    service.records.clear()
    told: list[tilefarm.Miss] = []
    assert compiled(database(service, on_miss=told.append)) is None
    assert (told[0].function, told[0].shash, told[0].target) == ("main", SHASH, TARGET)

    def raising(miss: tilefarm.Miss) -> None:
        raise RuntimeError(miss.shash)

    assert compiled(database(service, on_miss=raising)) is None


def _bad_decision(trace: Any) -> None:
    trace[1][0][1] = [10**9, 8, 3]


def _bad_index(trace: Any) -> None:
    trace[1][0][0] = 10**6


def _native_code(trace: Any) -> None:
    trace[0].append(["Annotate", ["l2", '"int main;"'], ["pragma_import_llvm"], []])


def _unknown_block(trace: Any) -> None:
    trace[0][0][2][0] = "nothing"


def _not_a_trace(trace: Any) -> None:
    trace.clear()


@pytest.mark.parametrize("tamper", [_bad_decision, _bad_index, _native_code, _unknown_block, _not_a_trace])
def test_a_tampered_trace_is_no_record(service: FakeService, tamper: Any) -> None:
    bad = copy.deepcopy(service.records[SHASH])
    tamper(bad["trace"])
    service.records[SHASH] = bad
    db = database(service)
    assert compiled(db) is None
    assert db.stats().errors == 1
    assert db.stats().hits == 0


def test_a_record_of_another_module_under_the_same_hash_is_no_record(service: FakeService) -> None:
    text = record()["module"].replace('"prim.Max"', '"prim.Min"')
    service.records[SHASH] = record(module=text)
    db = database(service)
    assert compiled(db) is None
    assert db.stats().errors == 1


def test_a_record_of_another_tvm_is_no_record(service: FakeService) -> None:
    service.records[SHASH] = record(tvm_version="0.1")
    assert compiled(database(service, on_miss="silent")) is None


CYCLE = (
    '{"root_index":1,"nodes":[{"type":"ffi.Array","data":[1]},{"type":"ir.IRModule","data":{"functions":0}}]}'
)


@pytest.mark.parametrize(
    "module_text", ["", "[]", "{", '{"nodes":[]}', CYCLE, CYCLE.replace("ffi.Array", "ffi.Function")]
)
def test_a_module_that_tvm_must_not_load_is_no_record(service: FakeService, module_text: str) -> None:
    service.records[SHASH] = record(module=module_text)
    db = database(service)
    assert compiled(db) is None
    assert db.stats().errors == 1


@pytest.mark.parametrize(
    "answer",
    [
        httpx.Response(200, content=b"<html>please log in</html>"),
        httpx.Response(200, json=[1, 2]),
        httpx.Response(200, json={"records": {SHASH: [{}]}}),
        httpx.Response(200, json={"records": 7, "missing": {}}),
        httpx.Response(200, content=b"[" * 100_000),
        httpx.Response(302, headers={"Location": "http://elsewhere.test"}),
        httpx.Response(401, json={"detail": "no"}),
        httpx.Response(500, content=b"oops"),
    ],
    ids=["html", "list", "no target", "no records", "deep", "redirect", "401", "500"],
)
def test_garbage_is_no_record_and_the_compile_goes_on(answer: httpx.Response) -> None:
    db = database(
        lambda _: httpx.Response(answer.status_code, content=answer.content, headers=answer.headers)
    )
    with Target(TARGET), db:
        applied = relax.transform.MetaScheduleApplyDatabase()(MMRelu)
    assert not is_tuned(applied)
    assert runs_right(applied, "mm_relu")
    assert db.stats().errors >= 1


def test_a_service_that_is_down_costs_one_wait_and_a_compile_still_works() -> None:
    with unanswered() as hanging:
        db = database(hanging, timeout_secs=DEADLINE_SECS, on_miss="silent")
        began = time.monotonic()
        for symbol in ("a", "b", "c", "d"):
            assert compiled(db, renamed(symbol)) is None
        assert DEADLINE_SECS <= db.stats().total_secs <= time.monotonic() - began < 2 * DEADLINE_SECS
        assert db.stats().errors == 4
        assert runs_right(MMRelu, "mm_relu")


def test_all_that_is_waited_for_a_service_that_stays_away_is_one_deadline(
    service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long a build takes, and until the service answers in time."""
    monkeypatch.setattr(sys.modules["tilefarm.connect"], "COOLING_SECS", 0.01)
    asked: list[httpx.Request] = []
    with unanswered() as hanging:

        def back_after_four(request: httpx.Request) -> httpx.Response:
            asked.append(request)
            return hanging(request) if len(asked) <= 4 else service(request)

        db = database(back_after_four, timeout_secs=DEADLINE_SECS, on_miss="silent")
        for _ in range(4):
            assert compiled(db) is None
            time.sleep(0.02)
        assert len(asked) == 4
        assert DEADLINE_SECS <= db.stats().total_secs < 2 * DEADLINE_SECS
        # It is back; who asks next need not wait for it, and sooner or later one gets its answer.
        wait_until(lambda: (found := compiled(db)) is not None and is_tuned(found.mod))


def test_nobody_listening_is_no_record(caplog: pytest.LogCaptureFixture) -> None:
    db = tilefarm.connect("http://127.0.0.1:9", "t", timeout_secs=2)
    assert compiled(db) is None
    assert "cannot reach" in caplog.text


def test_prefetch_asks_for_a_whole_module_at_once(service: FakeService) -> None:
    both = tvm.IRModule({**renamed("a").functions, **renamed("b").functions})
    db = database(service)
    assert db.prefetch(both, TARGET) == 2
    assert len(service.requests) == 1
    assert is_tuned(compiled(db, renamed("a")).mod)
    assert len(service.requests) == 1
    assert db.prefetch("no module", TARGET) == 0


def test_the_length_is_no_question_and_commits_are_polite(
    service: FakeService, caplog: pytest.LogCaptureFixture
) -> None:
    db = database(service)
    assert len(db) >= 1
    workload = db.commit_workload(MMRelu)
    db.commit_tuning_record(ms.database.TuningRecord(tvm.s_tir.Schedule(MMRelu).trace, workload))
    assert "was not committed" in caplog.text
    assert db.get_all_tuning_records() == []
    assert list(db.get_top_k(workload, 3)) == []
    assert not db.has_workload(MMRelu)
    assert service.requests == []


def test_it_is_a_metaschedule_database_and_answers_in_a_union(service: FakeService) -> None:
    db = database(service)
    assert isinstance(db, ms.Database)
    assert isinstance(db, tilefarm.RemoteDatabase)
    union = ms.database.OrderedUnionDatabase(MemoryDatabase(), db)
    with Target(TARGET), union:
        # zero_pipeline asks for the length, which stock's union does not have; the pass itself works.
        applied = relax.transform.MetaScheduleApplyDatabase()(MMRelu)
    assert is_tuned(applied)


def test_the_farms_exact_target_comes_by_profile_name(service: FakeService) -> None:
    view = {"name": "local", "target": TARGET, "key": "", "workers_alive": 1}
    service.routes["GET /v1/targets/local"] = lambda _: httpx.Response(200, json=view)
    db = database(service)
    assert is_tuned(compiled(db, target=db.target("local").export()).mod)


def test_connect_asks_nothing_and_wants_a_url() -> None:
    tilefarm.connect(URL)
    with pytest.raises(tilefarm.NotConfiguredError, match="tilefarm-server up"):
        tilefarm.connect()
