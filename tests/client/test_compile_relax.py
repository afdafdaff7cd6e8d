"""Stock compile_relax and the static_shape_tuning pipeline on the service's records, unchanged."""

from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.s_tir.meta_schedule.relax_integration import compile_relax
from tvm.target import Target

import tilefarm
from tests.client.conftest import TARGET, FakeService, database, record
from tilefarm import module
from tilefarm.cli import sources
from tilefarm.space import trace_json


def model() -> tvm.IRModule:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((64, 64), "float32"))
    w = relax.Var("w", relax.TensorType((64, 64), "float32"))
    with builder.function("main", [x, w]):
        with builder.dataflow():
            hidden = builder.emit(relax.op.nn.relu(relax.op.matmul(x, w)))
            out = builder.emit_output(builder.emit(relax.op.nn.softmax(hidden)))
        builder.emit_func_output(out)
    return builder.get()


def compiled_right(db: object) -> bool:
    """As numpy computes it."""
    executable = compile_relax(db, model(), Target(TARGET), params=None)
    rng = np.random.default_rng(1)
    x, w = (rng.random((64, 64), dtype="float32") - 0.5 for _ in range(2))
    out = relax.VirtualMachine(executable, tvm.cpu())["main"](tvm.runtime.tensor(x), tvm.runtime.tensor(w))
    hidden = np.maximum(x @ w, 0)
    powers = np.exp(hidden - hidden.max(axis=-1, keepdims=True))
    return bool(np.allclose(out.numpy(), powers / powers.sum(axis=-1, keepdims=True), rtol=1e-4, atol=1e-5))


def test_a_model_is_one_request(service: FakeService) -> None:
    db = database(service, on_miss="silent")
    assert compiled_right(db)
    assert [len(body["workloads"]) for body in service.bodies()] == [2]
    assert db.stats().misses == 2


def test_the_static_shape_tuning_pipeline_takes_records_unchanged(
    service: FakeService, tmp_path: Path
) -> None:
    """Its functions are missed first; then the service knows the matmul, and the pipeline schedules that."""

    def run() -> tuple[Any, list[tilefarm.Miss]]:
        missed: list[tilefarm.Miss] = []
        db = database(service, on_miss=missed.append, cache_dir=tmp_path / f"cache-{len(service.records)}")
        with Target(TARGET) as target, db:
            pipeline = relax.get_pipeline(
                "static_shape_tuning", total_trials=0, target=target, work_dir=str(tmp_path)
            )
            lowered = pipeline(model())
        db.close()
        return lowered, missed

    _, missed = run()
    assert len(missed) == 2
    (fused,) = [miss for miss in missed if "matmul" in miss.function]
    ready = sources.read(Path(str(fused.command).split()[-1]))
    canonical = module.workload_of(sources.module_of(ready)).module
    schedule = tvm.s_tir.Schedule(module.copy_of(canonical))
    schedule.parallel(schedule.get_loops(schedule.get_sblock("matmul"))[0])
    service.records[str(fused.shash)] = record(module=module.to_json(canonical), trace=trace_json(schedule))
    lowered, missed = run()
    assert all("matmul" not in miss.function for miss in missed)
    assert len(missed) == 1
    scheduled = {
        str(variable.name_hint)
        for variable, func in lowered.functions_items()
        if isinstance(func, tvm.tirx.PrimFunc) and module.is_scheduled(func)
    }
    assert scheduled == {fused.function}
    assert "T.parallel" in lowered[fused.function].script()
