# ruff: noqa: N803, N805, N806, N812 - TVMScript has its own names
"""What TVM's own tests ask of MemoryDatabase and JSONDatabase, asked of ours: connection and ordered union.

The union is of a stock JSONDatabase and a connection, so that what it keeps outlives it. Differences that are
meant: a connection counts as one where nothing was committed, and a record of another target is none.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import tvm
import tvm_ffi
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.meta_schedule.database import JSONDatabase, TuningRecord
from tvm.script import ir as I
from tvm.script import tirx as T
from tvm.target import Target

import tilefarm
from tests.client.conftest import FakeService, database

EQUALITIES = ["structural", "ignore-tensor", "anchor-block"]
#: Stock's tests name no CPU; nothing is ever asked of the service about such a target.
TARGET = Target("llvm")


@I.ir_module
class Product:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((32, 32), "float32"), B: T.Buffer((32, 32), "float32"), C: T.Buffer((32, 32))):
        T.func_attr({"global_symbol": "main"})
        for i, j, k in T.grid(32, 32, 32):
            with T.sblock("product"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


@I.ir_module
class ProductRelu:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((32, 32), "float32"), B: T.Buffer((32, 32), "float32"), D: T.Buffer((32, 32))):
        T.func_attr({"global_symbol": "main", "tirx.noalias": True})
        C = T.sblock_alloc_buffer((32, 32), dtype="float32")
        for i, j, k in T.grid(32, 32, 32):
            with T.sblock("product"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
        for i, j in T.grid(32, 32):
            with T.sblock("relu"):
                vi, vj = T.axis.remap("SS", [i, j])
                D[vi, vj] = T.max(C[vi, vj], T.float32(0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One of our databases."""

    #: A fresh one, or the same once more, of a module equality.
    make: Callable[[str], Any]
    #: What its length is above the number of records.
    more: int
    #: Whether what is committed is there when it is made again.
    lasts: bool


@pytest.fixture(params=["connection", "union"])
def kind(request: pytest.FixtureRequest, service: FakeService, tmp_path: Path) -> Kind:
    service.records.clear()

    def connection(equality: str) -> Any:
        return database(service, mode="read-write", on_miss="silent", module_equality=equality)

    def union(equality: str) -> Any:
        stock = JSONDatabase(work_dir=str(tmp_path), module_equality=equality)
        return tilefarm.OrderedUnionDatabase(stock, connection(equality))

    if request.param == "connection":
        return Kind(make=connection, more=0, lasts=False)
    return Kind(make=union, more=1, lasts=True)


def tiled(mod: Any = Product) -> Any:
    schedule = tvm.s_tir.Schedule(mod, debug_mask="all")
    i, j, k = schedule.get_loops(schedule.get_sblock("product"))
    i_0, i_1 = schedule.split(i, [4, 8])
    j_0, j_1 = schedule.split(j, [2, 16])
    schedule.reorder(i_0, j_0, k, i_1, j_1)
    return schedule


def commit(db: Any, run_secs: Any, *, schedule: Any = None, mod: Any = Product) -> Any:
    args = ms.arg_info.ArgInfo.from_prim_func(func=mod["main"])
    trace = (schedule or tiled(mod)).trace
    record = TuningRecord(trace, db.commit_workload(mod), run_secs, TARGET, args)
    db.commit_tuning_record(record)
    return record


def seconds(records: Any) -> list[list[float]]:
    return [[float(secs) for secs in record.run_secs] for record in records]


def assert_same(one: Any, other: Any) -> None:
    assert str(one.trace) == str(other.trace)
    assert seconds([one]) == seconds([other])
    assert str(one.target) == str(other.target)
    assert tvm_ffi.structural_equal(one.workload.mod, other.workload.mod)
    assert [str(arg.as_json()) for arg in one.args_info] == [str(arg.as_json()) for arg in other.args_info]


@pytest.mark.parametrize("equality", EQUALITIES)
def test_a_workload_is_there_once_it_was_committed(kind: Kind, equality: str) -> None:
    db = kind.make(equality)
    assert not db.has_workload(Product)
    workload = db.commit_workload(Product)
    assert tvm_ffi.structural_equal(workload.mod, Product)
    assert tvm_ffi.structural_equal(db.commit_workload(Product).mod, workload.mod)
    assert db.has_workload(Product)
    assert db.has_workload(ProductRelu) == (equality == "anchor-block")


def test_a_record_comes_back_as_it_was_committed(kind: Kind) -> None:
    db = kind.make("structural")
    record = commit(db, [1.5, 2.5, 1.8])
    assert len(db) == 1 + kind.more
    (found,) = db.get_top_k(record.workload, 3)
    assert_same(found, record)
    assert_same(TuningRecord.from_json(found.as_json(), record.workload), record)
    assert [str(one.trace) for one in db.get_all_tuning_records()] == [str(record.trace)]


def test_another_workload_has_none_of_it(kind: Kind) -> None:
    db = kind.make("structural")
    commit(db, [1.0])
    assert list(db.get_top_k(db.commit_workload(ProductRelu), 3)) == []
    assert db.query_tuning_record(ProductRelu, TARGET, "main") is None


TIMES = [[1.5, 4.5], [], [0.0, 2.0], None, [2.0], [3.0, 1e10], [1e10]]
BEST = [[0.0, 2.0], [2.0], [1.5, 4.5], [3.0, 1e10]]


@pytest.mark.parametrize("count", [0, 1, 4, 5])
def test_the_best_come_first_and_failures_not_at_all(kind: Kind, count: int) -> None:
    db = kind.make("structural")
    for run_secs in TIMES:
        record = commit(db, run_secs)
    assert seconds(db.get_top_k(record.workload, count)) == BEST[:count]
    assert len(db) == len(TIMES) + kind.more


def test_what_a_union_keeps_is_there_when_it_is_opened_again(kind: Kind) -> None:
    first = kind.make("structural")
    for run_secs in ([7.0, 8.0, 9.0], [1.0, 2.0, 3.0], [4.0, 5.0, 6.0]):
        commit(first, run_secs)
    again = kind.make("structural")
    found = seconds(again.get_top_k(again.commit_workload(Product), 2))
    assert found == ([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]] if kind.lasts else [])


def test_the_three_questions_answer_alike_and_by_the_best_record(kind: Kind) -> None:
    db = kind.make("structural")

    def asked(what: str) -> Any:
        return db.query(Product, TARGET, workload_name="main", kind=what)

    assert [asked(what) for what in ("record", "schedule", "ir_module")] == [None] * 3
    commit(db, [1.0])
    assert seconds([asked("record")]) == [[1.0]]
    assert tvm_ffi.structural_equal(asked("schedule").mod, tiled().mod)
    assert tvm_ffi.structural_equal(asked("ir_module"), tiled().mod)
    faster = tvm.s_tir.Schedule(Product)
    faster.parallel(faster.get_loops(faster.get_sblock("product"))[0])
    commit(db, [0.2], schedule=faster)
    # Stock's databases take a record whose trace does nothing for none.
    commit(db, [0.1], schedule=tvm.s_tir.Schedule(Product))
    assert seconds([asked("record")]) == [[0.2]]
    assert tvm_ffi.structural_equal(asked("schedule").mod, faster.mod)
    assert tvm_ffi.structural_equal(asked("ir_module"), faster.mod)


def test_it_is_the_current_database_inside_its_with(kind: Kind) -> None:
    db = kind.make("structural")
    with db:
        assert ms.database.Database.current() == db
    assert ms.database.Database.current() is None


def test_of_a_union_the_first_answers_and_stocks_own_takes_ours(kind: Kind) -> None:
    one, other = kind.make("structural"), ms.database.MemoryDatabase()
    commit(one, [1.0])
    commit(other, [0.5])

    def run_secs(db: Any) -> list[list[float]]:
        return seconds([db.query_tuning_record(Product, TARGET, "main")])

    assert run_secs(tilefarm.OrderedUnionDatabase(one, other)) == [[1.0]]
    assert run_secs(tilefarm.OrderedUnionDatabase(other, one)) == [[0.5]]
    assert run_secs(ms.database.OrderedUnionDatabase(one, other)) == [[1.0]]
    assert run_secs(ms.database.UnionDatabase(one, other)) == [[0.5]]


def test_by_the_anchor_block_another_functions_record_becomes_one_of_the_asked(service: FakeService) -> None:
    """Stock hands out the other function's own schedule here; a compile that took it would lose the relu."""
    db = database(service, mode="read-write", on_miss="silent", module_equality="anchor-block")
    commit(db, [1.0])
    found = db.query_tuning_record(ProductRelu, TARGET, "main")
    assert tvm_ffi.structural_equal(found.workload.mod, ProductRelu)
    schedule = tvm.s_tir.Schedule(found.workload.mod)
    found.trace.apply_to_schedule(schedule, remove_postproc=False)
    assert tvm_ffi.structural_equal(schedule.mod, db.query_ir_module(ProductRelu, TARGET, "main"))
    script = schedule.mod.script()
    assert "T.max" in script
    assert "i_0" in script
    exact = database(service, mode="read-write", on_miss="silent")
    commit(exact, [1.0])
    assert exact.query_schedule(ProductRelu, TARGET, "main") is None


def test_a_module_equality_that_tvm_does_not_know_is_refused(service: FakeService) -> None:
    with pytest.raises(tilefarm.NotConfiguredError, match="anchor-block"):
        database(service, module_equality="same-name")
