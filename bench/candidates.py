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


def draw_bad(workload: str) -> dict[str, str]:
    """Traces of the workload by how they end in a worker; none is anything that a search would propose."""
    answer: dict[str, str] = ask("bench.candidates", {"bad": workload})
    return answer


def _bad(module: str) -> dict[str, str]:
    from tuner.module import load_module
    from tuner.plain_json import plain
    from tuner.tvm_light import load_tvm

    tvm = load_tvm()
    made = {"junk": "no trace", "rejected": '[[["NoSuch",[],[],[]]],[]]'}
    for name in ("wrong_output", "build_timeout"):
        schedule = tvm.s_tir.Schedule(load_module(module), debug_mask="none")
        block = schedule.get_child_blocks(schedule.get_sblock("root", func_name="main"))[-1]
        if name == "wrong_output":
            schedule.unsafe_set_dtype(schedule.cache_read(block, 0, "global"), 0, "int8")
        else:
            for loop in schedule.get_loops(block):
                schedule.unroll(loop)
        made[name] = json.dumps(plain(schedule.trace.as_json()))
    return made


def main() -> None:
    order, answer_path = order_and_answer()
    if "bad" in order:
        answer_path.write_text(json.dumps(_bad(suite.workload(order["bad"]).module)))
        return
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
