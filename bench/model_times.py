"""One model timed without and with the farm's records, in a process: `python -m bench.model_times`.

Both are compiled as a consumer compiles them, run in Relax's virtual machine on the same inputs, compared
with each other and with numpy, and timed in turns.
"""

import json
import math
import statistics
from collections.abc import Mapping
from typing import Any

import numpy as np

from bench.processes import ask, check_threads, order_and_answer, threads_of

_ROUNDS = 9
_ROUND_MS = 50.0
#: Of outputs, relative to the largest.
_TOLERANCE = 1e-4
MIXTURE = "mixture"


def times(model: str, *, url: str, token: str, target: Mapping[str, Any]) -> dict[str, Any]:
    """Medians "untuned_secs" and "tuned_secs", their "difference" and that to numpy, "hits" and "misses".

    RuntimeError where one of them does not compute what numpy does.
    """
    order = {"model": model, "url": url, "token": token, "target": dict(target)}
    answer: dict[str, Any] = ask("bench.model_times", order, env=threads_of(target))
    return answer


def main() -> None:
    order, answer_path = order_and_answer()
    check_threads(order["target"])
    answer_path.write_text(json.dumps(_measured(order)))


def _measured(order: dict[str, Any]) -> dict[str, Any]:
    import tvm
    from tvm.s_tir.meta_schedule.database import MemoryDatabase

    import tilefarm

    target = tvm.target.Target(order["target"])
    with tilefarm.connect(order["url"], order["token"], on_miss="silent") as database:
        build = _mixture if order["model"] == MIXTURE else _relax
        untuned, inputs = build(order["model"], MemoryDatabase(), target)
        tuned, _ = build(order["model"], database, target)
        stats = database.stats()
    outputs = [machine["main"](*inputs).numpy() for machine in (untuned, tuned)]
    differences = [_difference(output, _expected(order["model"])) for output in outputs]
    if max(differences) > _TOLERANCE:
        raise RuntimeError(f"{order['model']} computes something else than numpy: {differences}")
    untuned_secs, tuned_secs = _in_turns([untuned, tuned], inputs)
    return {
        "untuned_secs": untuned_secs,
        "tuned_secs": tuned_secs,
        "difference": _difference(outputs[1], outputs[0]),
        "difference_to_numpy": differences[1],
        "hits": stats.hits,
        "misses": stats.misses,
    }


def _expected(name: str) -> Any:
    """The model's output as numpy computes it."""
    from examples import mixture
    from examples.models import models
    from examples.models_in_numpy import in_numpy

    return mixture.expected(*mixture.inputs()) if name == MIXTURE else in_numpy(name, models()[name]())


def _difference(got: Any, expected: Any) -> float:
    """The largest, relative to the largest output."""
    return float(np.abs(got - expected).max() / np.abs(expected).max())


def _relax(name: str, database: Any, target: Any) -> tuple[Any, list[Any]]:
    import tvm
    from tvm.relax import VirtualMachine
    from tvm.s_tir.meta_schedule.relax_integration import compile_relax

    from examples.models import models

    model = models()[name]()
    executable = compile_relax(database, model.mod, target, model.tensors())
    return VirtualMachine(executable, tvm.cpu()), [tvm.runtime.tensor(value) for value in model.inputs]


def _mixture(_name: str, database: Any, target: Any) -> tuple[Any, list[Any]]:
    """`linear0` replaced by `update_func` where the database has it; the packed functions stay."""
    import tvm
    from tvm.relax import VirtualMachine

    from examples import mixture

    mixture.register()
    mod = mixture.replaced(mixture.mixture(), database, target) or mixture.mixture()
    inputs = [tvm.runtime.tensor(value) for value in mixture.inputs()]
    return VirtualMachine(tvm.compile(mod, target), tvm.cpu()), inputs


def _in_turns(machines: list[Any], inputs: list[Any]) -> list[float]:
    """Median seconds of a call of each."""
    import tvm

    secs: list[list[float]] = [[] for _ in machines]
    calls = [1] * len(machines)
    for _ in range(_ROUNDS):
        for index, machine in enumerate(machines):
            mean = float(machine.time_evaluator("main", tvm.cpu(), number=calls[index])(*inputs).mean)
            calls[index] = max(1, math.ceil(_ROUND_MS / 1e3 / mean))
            secs[index].append(mean)
    # The first round warms up, and tells how many calls a round takes.
    return [statistics.median(found[1:]) for found in secs]


if __name__ == "__main__":
    main()
