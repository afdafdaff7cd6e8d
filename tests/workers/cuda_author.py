"""Children that make CUDA workloads and compile them, for tests of a builder without a GPU."""

import os
from typing import Any

from sandbox.channel import Channel
from tuner.search_child import SearchChild
from tuner.tvm_light import load_tvm
from workers.cuda_code import OWN_TOOLKIT
from workers.program import ENTRY, compile_module, load_module, replay


def run(channel: Channel) -> None:
    """A matrix product, and traces that a search finds for the target; order {"target", "dtype"}."""
    order, _ = channel.recv()
    module, traces = _made(order)
    channel.send({"module": module, "traces": traces})


def _made(order: dict[str, Any]) -> tuple[str, list[str]]:
    tvm = load_tvm()
    from tvm import te

    shape, dtype = (256, 256), order["dtype"]
    left, right = (te.placeholder(shape, name=name, dtype=dtype) for name in "AB")
    along = te.reduce_axis((0, shape[0]), name="k")
    product = te.compute(shape, lambda i, j: te.sum(left[i, along] * right[along, j], axis=along), name="C")
    function = te.create_prim_func([left, right, product]).with_attr("global_symbol", ENTRY)
    module = tvm.ir.save_json(tvm.IRModule({ENTRY: function.with_attr("tirx.noalias", True)}))
    search = SearchChild()
    opened = search.answer(
        {
            "op": "open",
            "module": module,
            "target": order["target"],
            "space": {"rules": "tilefarm"},
            "seed": 1,
            "strategy": "evolutionary",
        }
    )
    assert opened.get("ok"), opened
    found = search.answer({"op": "suggest", "count": 4, "round": 0})
    return module, [each["trace"] for each in found["candidates"]]


def both_headers(channel: Channel) -> None:
    """The machine code of one candidate, with the short headers and with NVIDIA's own."""
    order, _ = channel.recv()
    module, traces = _made(order)
    made = {}
    for name, toolkit in (("short", os.environ["CUDA_PATH"]), ("own", os.environ[OWN_TOOLKIT])):
        os.environ["CUDA_PATH"] = toolkit
        runtime = compile_module(replay(load_module(module), traces[0]), order["target"])
        kept = str(runtime.imports[0].inspect_source())
        made[name] = kept.rsplit(maxsplit=1)[-1]
    channel.send(made)
