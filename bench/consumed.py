"""`python -m bench consumed`: a dense layer's published time, and what its consumers get.

The weight is layout-free: TVM's rules pack it, and a consumer packs it anew in every call. The layer is tuned
on a fresh embedded service. Then its record is timed in fresh processes, in turns: by a worker's own
Measurer, and by consumers that build it by `compile_tir` and `compile_relax`. Processes of one kernel differ,
so their medians are compared.
"""

import argparse
import json
import os
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench import report
from bench.machine import commit
from bench.measuring import measuring
from bench.processes import ask, order_and_answer, threads_of
from services.server.launch import launch
from tuner.plain_json import plain
from tuner.tvm_light import load_tvm
from workers.messages import MeasurePolicy
from workers.timing import take_cores

_LAYERS = ((16, 1024, 1024), (128, 3072, 768))
_ROUNDS = 6
_ROUND_SECS = 0.02
_CONSUMERS = ("compile_tir", "compile_relax", "virtual machine")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--layers", nargs="+", type=_layer, default=list(_LAYERS), help="ROWSxCOLUMNSxDEPTH")
    parser.add_argument("--trials", type=int, default=32, help="of each layer")
    parser.add_argument("--turns", type=int, default=5, help="fresh processes of each side")
    parser.add_argument("--dry", action="store_true", help="leave docs/ as it is")


def main(arguments: argparse.Namespace) -> int:
    with (
        tempfile.TemporaryDirectory(prefix="tilefarm-bench-") as text,
        launch(Path(text) / "data") as service,
    ):
        order = {"url": service.url, "token": service.token, "target": service.target}
        env = threads_of(service.target)
        records = [
            ask(
                "bench.consumed",
                {**order, "layer": layer, "trials": arguments.trials, "work_dir": text},
                env=env,
            )
            for layer in arguments.layers
        ]
        with measuring(service.target) as worker:
            for record in records:
                record["measured"], record["consumed"] = [], []
                for _ in range(arguments.turns):
                    (outcome,) = worker.outcomes(record["module"], [record["trace"]], MeasurePolicy())
                    record["measured"].append(statistics.median(outcome.run_secs or ()))
                    consumer = {**order, "layer": record["layer"]}
                    record["consumed"].append(ask("bench.consumed", consumer, env=env))
        target = service.target
    report.write_json("consumed.json", {"commit": commit(), "target": target, "records": records})
    words = table(records, f"{report.measured_on(target)}.")
    print(words)
    if not arguments.dry:
        report.write_section("consumed", words)
    return 0


def table(records: Sequence[Mapping[str, Any]], where: str) -> str:
    """Markdown. Medians over processes of medians within them; the record's over its confirmations."""
    head = ["layer", "weight packed", "published, µs", "worker, µs", *(f"{name}, µs" for name in _CONSUMERS)]
    rows = []
    for record in records:
        measured = statistics.median(record["measured"])
        secs = [statistics.median(found[name] for found in record["consumed"]) for name in _CONSUMERS]
        layer = "×".join(map(str, record["layer"]))
        packed = "in every call" if "layout_rewrite_preproc" in record["trace"] else "no"
        cells = [f"{report.micros(found)} ({found / measured:.2f} ×)" for found in secs]
        published = report.micros(statistics.median(record["published"]))
        rows.append([layer, packed, published, report.micros(measured), *cells])
    turns = len(records[0]["measured"])
    words = f"{where} {turns} fresh processes on either side, in turns; in brackets, over the worker's."
    return "\n".join([words, "", *report.markdown_table(head, rows)])


def _layer(text: str) -> tuple[int, int, int]:
    rows, columns, depth = map(int, text.split("x"))
    return rows, columns, depth


def _answer(order: Mapping[str, Any]) -> dict[str, Any]:
    """A process of its own: tunes where it is told how many trials, else times."""
    tvm = load_tvm()

    import tilefarm
    from tilefarm import module
    from tilefarm.extraction import extract

    target, mod = tvm.target.Target(order["target"]), _dense(*order["layer"])
    (task,) = extract(mod, target, pipeline="compile_relax", canonical=module.canonical).tasks
    access = {"url": order["url"], "token": order["token"]}
    if "trials" in order:
        tilefarm.tune_relax(mod, None, order["target"], order["work_dir"], order["trials"], **access)
    with tilefarm.connect(**access) as database:
        if "trials" not in order:
            return _timed(mod, task, target, database, order["layer"])
        record = database.query_tuning_record(module.canonical(task.func), target, "main")
        return {
            "layer": order["layer"],
            "module": module.to_json(module.canonical(task.func)),
            "trace": json.dumps(plain(record.trace.as_json())),
            "published": [float(secs) for secs in record.run_secs],
        }


def _dense(rows: int, columns: int, depth: int) -> Any:
    from tvm import relax, topi

    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((rows, depth), "float32"))
    weight = relax.Var("weight", relax.TensorType((columns, depth), "float32"))
    with builder.function("main", [x, weight]):
        with builder.dataflow():
            out = builder.emit_output(builder.emit_te(topi.nn.dense, x, weight))
        builder.emit_func_output(out)
    return builder.get()


def _timed(mod: Any, task: Any, target: Any, database: Any, layer: Sequence[int]) -> dict[str, float]:
    import numpy as np
    import tvm
    from tvm.relax import VirtualMachine
    from tvm.s_tir.meta_schedule.relax_integration import compile_relax
    from tvm.s_tir.meta_schedule.tir_integration import compile_tir

    schedule = compile_tir(database, task.func, target)
    (name,) = (str(variable.name_hint) for variable in schedule.mod.get_global_vars())
    executable = compile_relax(database, mod, target, params=None)
    assert database.stats().hits == 2
    take_cores(sorted(os.sched_getaffinity(0))[: int(target.attrs["num-cores"])])
    (kernels,) = executable.mod.imports
    rows, columns, depth = layer
    generator = np.random.default_rng(0)
    shapes = (rows, depth), (columns, depth), (rows, columns)
    arguments = [tvm.runtime.tensor(generator.random(shape, dtype="float32")) for shape in shapes]
    timers = (
        (tvm.compile(schedule.mod, target).mod, name, arguments),
        (kernels, task.name, arguments),
        (VirtualMachine(executable, tvm.cpu()), "main", arguments[:2]),
    )
    return dict(zip(_CONSUMERS, _in_turns(timers), strict=True))


def _in_turns(timers: Sequence[tuple[Any, str, Any]]) -> list[float]:
    """Median seconds of a call of each; the first round warms up and tells how many calls a round takes."""
    import tvm

    secs: list[list[float]] = [[] for _ in timers]
    calls = [1] * len(timers)
    for _ in range(_ROUNDS):
        for index, (owner, name, arguments) in enumerate(timers):
            timer = owner.time_evaluator(name, tvm.cpu(), number=calls[index], repeat=1)
            mean = float(timer(*arguments).mean)
            calls[index] = max(1, round(_ROUND_SECS / mean))
            secs[index].append(mean)
    return [statistics.median(found[1:]) for found in secs]


if __name__ == "__main__":
    asked, path = order_and_answer()
    path.write_text(json.dumps(_answer(asked)))
