"""Random candidates of a workload's space, from a process of its own: `python -m bench.candidates`.

The caller stays free of TVM, as a worker is.
"""

import json
from collections.abc import Mapping
from typing import Any

from bench import suite
from bench.processes import ask, order_and_answer


def draw(workload: str, *, count: int, seed: int, target: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """{"module", "flops", "target", "traces": [JSON texts]}; the local CPU's target where None is given."""
    order = {"workload": workload, "count": count, "seed": seed, "target": target}
    answer: dict[str, Any] = ask("bench.candidates", order)
    return answer


def main() -> None:
    order, answer_path = order_and_answer()
    from tuner.search.known import Known
    from tuner.search.options import SearchOptions
    from tuner.search.random import RandomSearch
    from tuner.search.setup import open_setup
    from tuner.target import detect_local_target

    target = order["target"] or detect_local_target()
    workload = suite.workload(order["workload"])
    setup = open_setup(
        module=workload.module, target=target, space=None, seed=order["seed"], options=SearchOptions()
    )
    suggestion = RandomSearch(setup, Known()).suggest(order["count"], round_=0)
    traces = [candidate.trace for candidate in suggestion.candidates]
    answer_path.write_text(
        json.dumps({"module": workload.module, "flops": workload.flops, "target": target, "traces": traces})
    )


if __name__ == "__main__":
    main()
