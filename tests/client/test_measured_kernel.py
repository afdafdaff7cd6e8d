"""A dense layer, its weight layout-free: what a worker times is what compile_tir and compile_relax build."""

import json
import re
import sys
from typing import Any

import pytest
import tvm
from tvm import relax, topi
from tvm.s_tir.meta_schedule.relax_integration import compile_relax
from tvm.s_tir.meta_schedule.tir_integration import compile_tir

from tests.client.conftest import TARGET, FakeService, database, record
from tests.workers.author import searched
from tilefarm import module
from tilefarm.extraction import extract
from tuner.target import make_target
from workers.program import compile_module, load_module, replay


def dense(*, fused: bool) -> tvm.IRModule:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((16, 64), "float32"))
    weight = relax.Var("weight", relax.TensorType((32, 64), "float32"))
    with builder.function("main", [x, weight]):
        with builder.dataflow():
            out = builder.emit_te(topi.nn.dense, x, weight)
            out = builder.emit_output(builder.emit(relax.op.nn.relu(out)) if fused else out)
        builder.emit_func_output(out)
    return builder.get()


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, Any]]:
    """(scheduled module, runtime module's text) of everything that TVM builds from TIR."""
    found: list[tuple[Any, Any]] = []
    stock = tvm.tirx.build

    def build(mod: Any, *args: Any, **options: Any) -> Any:
        runtime = stock(mod, *args, **options)
        found.append((mod, str(runtime.inspect_source())))
        return runtime

    monkeypatch.setattr(tvm.tirx, "build", build)
    monkeypatch.setattr(sys.modules["tvm.tirx.build"], "build", build)
    return found


@pytest.mark.parametrize("fused", [False, True])
def test_compile_relax_and_compile_tir_build_the_kernel_that_is_timed(
    built: list[tuple[Any, Any]], service: FakeService, *, fused: bool
) -> None:
    """Fused, the weight is ordinary: FuseTIR keeps no `layout_free_buffers`."""
    target, mod = make_target(TARGET), dense(fused=fused)
    compile_relax(database(service, on_miss="silent"), mod, target, params=None)
    ((untuned, _),) = built
    (task,) = extract(mod, target, pipeline="compile_relax", canonical=module.canonical).tasks
    name, asked = task.name, task.func
    workload = module.workload_of(asked)
    trace = _rewriting(searched(workload.module, count=2), rewrites=not fused)
    service.records[workload.shash] = record(module=module.to_json(workload.module), trace=json.loads(trace))

    built.clear()
    db = database(service, on_miss="silent")
    db.refresh()
    compile_relax(db, mod, target, params=None)
    by_tir = compile_tir(db, asked, target)
    tvm.compile(by_tir.mod, target)
    timed = replay(load_module(module.to_json(workload.module)), trace)
    compile_module(timed, TARGET)

    assert db.stats().hits == 2
    functions = [module.canonical(function) for mod_, _ in built for _, function in module.prim_funcs(mod_)]
    assert len(functions) == 3
    assert not module.equal(functions[0], module.canonical(untuned[name]))
    assert all(module.equal(function, module.canonical(timed["main"])) for function in functions)
    assert len({_kernel(text, name) for _, text in built}) == 1


def _rewriting(traces: list[str], *, rewrites: bool) -> str:
    """The first whose schedule packs the weight, or any."""
    return next(trace for trace in traces if not rewrites or "layout_rewrite_preproc" in trace)


def _kernel(text: str, name: str) -> str:
    """LLVM's text without what cannot matter to a time: addresses, debugging notes, words of error messages.

    A module has a second entry `__tvm_ffi_main`, which calls the first; a function that is called main is
    that entry itself.
    """
    text = re.sub(r"^define weak [^\n]*@__tvm_ffi_main\(.*?^}\n", "", text, flags=re.MULTILINE | re.DOTALL)
    lines = re.sub(r"0x[0-9a-f]+", "", text.replace(name, "main")).splitlines()
    return "\n".join(line for line in lines if line and not line.lstrip().startswith(("#dbg_", "@.str")))
