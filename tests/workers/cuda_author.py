"""Children that make CUDA workloads and compile them, for tests of a builder without a GPU."""

import functools
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


def hostile(channel: Channel) -> None:
    """Kernels that never end, that read where nothing is, that add one; each with a trace that binds it."""
    channel.recv()
    load_tvm()
    from tvm import te

    from tests.workers import author

    whole = te.placeholder((16,), "int32", name="A")
    more = author.workload([whole, te.compute((16,), lambda i: whole[i] + 1, name="B")])
    far = author.workload([whole, te.compute((16,), lambda i: whole[(i + 1) * 100_000_000], name="B")])

    def bound(sch: Any, name: str) -> None:
        sch.bind(sch.get_loops(sch.get_sblock(name, func_name=ENTRY))[0], "threadIdx.x")

    modules = {
        "endless": (author.module_of(author.endless), "spin"),
        "crash": (far, "B"),
        "more": (more, "B"),
    }
    made = {}
    for name, (module, block) in modules.items():
        made[name] = (author.save(module), author.trace(module, functools.partial(bound, name=block)))
    channel.send(made)


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
