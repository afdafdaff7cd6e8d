"""The classroom's mixture model: one layer is TensorIR, the rest are functions registered in this process.

`linear0` is tuned by the service and put into the model by `update_func`; `env.linear` and `env.relu` stay
what they are, packed functions that the model calls by name. The model runs in Relax's virtual machine,
before and after, and is compared with numpy.
"""

import tempfile
from typing import Any

import numpy as np
import tvm
from tvm import relax

import tilefarm
from examples.classroom import modules


def mixture() -> tvm.IRModule:
    """env.linear(env.relu(linear0(x, w0, b0)), w1, b1)"""
    shapes = {"x": (1, 784), "w0": (128, 784), "b0": (128,), "w1": (10, 128), "b1": (10,)}
    x, w0, b0, w1, b1 = (
        relax.Var(name, relax.TensorType(shape, "float32")) for name, shape in shapes.items()
    )
    hidden, answer = relax.TensorType((1, 128), "float32"), relax.TensorType((1, 10), "float32")
    builder = relax.BlockBuilder()
    linear0 = builder.add_func(modules()["linear0"]["linear0"], "linear0")
    with builder.function("main", [x, w0, b0, w1, b1]):
        with builder.dataflow():
            lv0 = builder.emit(relax.call_tir(linear0, (x, w0, b0), hidden))
            lv1 = builder.emit(relax.call_dps_packed("env.relu", (lv0,), hidden))
            out = builder.emit_output(relax.call_dps_packed("env.linear", (lv1, w1, b1), answer))
        builder.emit_func_output(out)
    return builder.get()


def inputs() -> list[np.ndarray]:
    """x, w0, b0, w1, b1"""
    random = np.random.default_rng(3)
    shapes = [(1, 784), (128, 784), (128,), (10, 128), (10,)]
    return [random.random(shape, dtype="float32") - 0.5 for shape in shapes]


def expected(x: Any, w0: Any, b0: Any, w1: Any, b1: Any) -> Any:
    return np.maximum(x @ w0.T + b0, 0) @ w1.T + b1


def register() -> None:
    """The functions that the model calls by name."""

    @tvm.register_global_func("env.linear", override=True)
    def linear(x: Any, w: Any, b: Any, out: Any) -> None:
        out.copyfrom(x.numpy() @ w.numpy().T + b.numpy())

    @tvm.register_global_func("env.relu", override=True)
    def relu(x: Any, out: Any) -> None:
        out.copyfrom(np.maximum(x.numpy(), 0))


def replaced(mod: tvm.IRModule, database: Any, target: Any) -> tvm.IRModule | None:
    """The module with the tuned `linear0`; None where the database has none."""
    tuned = database.query_ir_module(tvm.IRModule({"linear0": mod["linear0"]}), target, "linear0")
    if tuned is None:
        return None
    new = tvm.IRModule(mod.functions)
    new.update_func(new.get_global_var("linear0"), tuned["linear0"])
    return new


def run(mod: tvm.IRModule, target: Any) -> Any:
    """What the model answers in the virtual machine."""
    machine = relax.VirtualMachine(tvm.compile(mod, target), tvm.cpu())
    return machine["main"](*(tvm.runtime.tensor(value) for value in inputs())).numpy()


def main() -> None:
    register()
    model = mixture()
    with tempfile.TemporaryDirectory() as work_dir:
        database = tilefarm.tune_relax(model, {}, "local", work_dir, 16, pipeline="as_is")
    target = database.target("local")
    for name, mod in (("untuned", model), ("tuned", replaced(model, database, target))):
        if mod is None:
            raise SystemExit("the farm has no record of linear0")
        np.testing.assert_allclose(run(mod, target), expected(*inputs()), rtol=1e-4, atol=1e-4)
        print(f"{name}: agrees with numpy")


if __name__ == "__main__":
    main()
