"""What a question costs by itself, by the size of the function: hash, equality, and what loading takes.

The functions are those that the example models' compiles ask for. No service is asked.
"""

import json
import statistics
import time
from collections.abc import Callable
from typing import Any

from bench.lookup_content import TARGET
from bench.machine import this_machine
from bench.report import markdown_table

_REPEATS = 15
_MODELS = ("cnn", "resnet", "transformer")


def measure() -> tuple[str, dict[str, Any]]:
    """A Markdown table, and what it was made of."""
    import tvm

    from examples.models import models
    from tilefarm import model_tuning

    target = tvm.target.Target(TARGET)
    found: list[dict[str, Any]] = []
    for name in _MODELS:
        model = models()[name]()
        tasks = model_tuning.tunable(model.mod, model.tensors(), target, pipeline="compile_relax")
        found.extend({"model": name, "function": task.name, **_parts(task.func)} for task in tasks)
    found.sort(key=lambda each: int(each["nodes"]))
    return _table(found), {"functions": found}


def _parts(func: Any) -> dict[str, Any]:
    """Medians, seconds."""
    from tilefarm import graph, module

    mod = module.canonical(func)
    text = module.to_json(mod)
    again = module.from_json(text)
    return {
        "nodes": len(json.loads(text)["nodes"]),
        "bytes": len(text),
        "hash_secs": _median(lambda: module.workload_of(func)),
        "equal_secs": _median(lambda: module.equal(again, mod)),
        "check_secs": _median(lambda: graph.check(text)),
        "load_secs": _median(lambda: module.from_json(text, is_checked=True)),
        "save_secs": _median(lambda: module.to_raw_json(mod)),
    }


def _median(call: Callable[[], object]) -> float:
    secs = []
    for _ in range(_REPEATS):
        began = time.perf_counter()
        call()
        secs.append(time.perf_counter() - began)
    return statistics.median(secs)


def _table(found: list[dict[str, Any]]) -> str:
    """The smallest, the one in the middle, and the three largest."""
    shown = [found[0], found[len(found) // 2], *found[-3:]]
    head = ["function", "nodes", "JSON, kB", "hash, µs", "equality, µs", "check, µs", "load, µs", "save, µs"]
    rows = [
        [
            f"{each['model']}: {each['function']}",
            str(each["nodes"]),
            f"{each['bytes'] / 1e3:.1f}",
            *(f"{1e6 * each[f'{part}_secs']:.0f}" for part in ("hash", "equal", "check", "load", "save")),
        ]
        for each in shown
    ]
    told = (
        f"{this_machine()}. Of {len(found)} functions of {', '.join(_MODELS)}, medians of {_REPEATS}. "
        "Hash: canonical form included. Check: of a record's graph, once, before it is kept. "
        "Save: of a miss, after the compile."
    )
    return "\n".join([told, "", *markdown_table(head, rows)])
