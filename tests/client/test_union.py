"""The ordered union: the first that has a record for exactly this target answers, and it has a length."""

from typing import Any

import pytest
import tvm
import tvm_ffi
from tvm import relax
from tvm.ir.utils import derived_object
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.meta_schedule.database import MemoryDatabase, PyDatabase
from tvm.target import Target

import tilefarm
from tests.client.conftest import TARGET, FakeService, MMRelu, database, space
from tests.client.test_database import compiled, is_tuned
from tilefarm import module

CANONICAL = module.workload_of(MMRelu).module


def tuned_trace() -> Any:
    schedule = tvm.s_tir.Schedule(CANONICAL)
    space(schedule)
    return schedule.trace


def stock(target: Any, secs: float) -> MemoryDatabase:
    """TVM's own database with a record of MMRelu."""
    found = MemoryDatabase()
    args = ms.arg_info.ArgInfo.from_prim_func(CANONICAL["main"])
    workload = found.commit_workload(CANONICAL)
    found.commit_tuning_record(
        ms.database.TuningRecord(tuned_trace(), workload, [secs], Target(target), args)
    )
    return found


@derived_object
class Broken(PyDatabase):
    def query_tuning_record(self, *_: Any) -> Any:
        raise RuntimeError("broken")

    def has_workload(self, *_: Any) -> bool:
        raise RuntimeError("broken")

    def __len__(self) -> int:
        raise RuntimeError("broken")


def test_the_first_that_has_a_record_answers(service: FakeService) -> None:
    mine, remote = stock(TARGET, 1.0), database(service)
    first = tilefarm.OrderedUnionDatabase(mine, remote).query_tuning_record(CANONICAL, Target(TARGET), "main")
    assert [float(secs) for secs in first.run_secs] == [1.0]
    assert service.requests == []
    turned = tilefarm.OrderedUnionDatabase(remote, mine)
    assert is_tuned(turned.query_schedule(CANONICAL, Target(TARGET), "main").mod)
    assert is_tuned(turned.query_ir_module(CANONICAL, Target(TARGET), "main"))


def test_another_targets_record_is_passed_over(service: FakeService) -> None:
    other = stock({**TARGET, "num-cores": 64}, 1.0)
    # What stock answers there: the target is not looked at.
    assert other.query_tuning_record(CANONICAL, Target(TARGET), "main") is not None
    union = tilefarm.OrderedUnionDatabase(other, database(service))
    assert is_tuned(compiled(union).mod)
    assert tilefarm.OrderedUnionDatabase(other).query_schedule(CANONICAL, Target(TARGET), "main") is None


def test_a_broken_database_is_passed_over(service: FakeService, caplog: pytest.LogCaptureFixture) -> None:
    union = tilefarm.OrderedUnionDatabase(Broken(), database(service))
    assert is_tuned(compiled(union).mod)
    assert "RuntimeError: broken" in caplog.text
    assert len(union) == 2
    assert not union.has_workload(CANONICAL)


def test_it_has_a_length_that_zero_pipeline_may_ask_for(service: FakeService) -> None:
    union = tilefarm.OrderedUnionDatabase(MemoryDatabase(), database(service))
    assert len(union) >= 1
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((64, 64), "float32"))
    w = relax.Var("w", relax.TensorType((64, 64), "float32"))
    with builder.function("main", [x, w]):
        with builder.dataflow():
            out = builder.emit_output(builder.emit(relax.op.nn.relu(relax.op.matmul(x, w))))
        builder.emit_func_output(out)
    with Target(TARGET), union:
        relax.get_pipeline("zero")(builder.get())
    assert len(service.bodies()) == 1


def test_what_is_committed_goes_to_the_first(service: FakeService) -> None:
    mine = MemoryDatabase()
    union = tilefarm.OrderedUnionDatabase(mine, database(service))
    workload = union.commit_workload(CANONICAL)
    args = ms.arg_info.ArgInfo.from_prim_func(CANONICAL["main"])
    union.commit_tuning_record(ms.database.TuningRecord(tuned_trace(), workload, [2.0], Target(TARGET), args))
    assert len(mine) == 1
    assert len(list(union.get_top_k(workload, 5))) == 1
    assert len(union.get_all_tuning_records()) == 1
    assert union.has_workload(CANONICAL)
    assert tvm_ffi.structural_equal(mine.get_all_tuning_records()[0].workload.mod, CANONICAL)


def test_a_union_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        tilefarm.OrderedUnionDatabase()
