"""One run of one side in a process of its own, so that the seconds of its whole tree are its own.

`python -m bench.one_run ORDER ANSWER`; the answer is a curves.Run. Both sides get the same module, target,
trials, seed and threads, and both pay for their start-up: the clock starts before their first process does.
"""

import json
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any

from bench.curves import Measured, Run, improvements
from bench.farm import Farm, epoch_secs, running_farm, searched
from bench.processes import adopt_orphans, ask, order_and_answer, reaped_cpu_secs, threads_of


def run(order: Mapping[str, Any]) -> Run:
    """`order`: side, workload, module, target, trials, batch, seed, options."""
    threads = threads_of(order["target"])
    return Run.from_json(ask("bench.one_run", order, env=threads))


def main() -> None:
    order, answer_path = order_and_answer()
    adopt_orphans()
    found = _stock(order) if order["side"] == "stock" else _ours(order)
    found["cpu_secs"] = reaped_cpu_secs()
    both = {name: order[name] for name in ("side", "workload", "seed", "trials")}
    answer_path.write_text(json.dumps({**both, **found}))


def _stock(order: dict[str, Any]) -> dict[str, Any]:
    began = time.time()
    answer = ask("bench.stock_run", order)
    trials = answer["trials"]
    measured = [
        Measured(secs=trial["at"] - began, latency_secs=trial["latency_secs"], trace=trial["trace"])
        for trial in trials
    ]
    return {
        "trials_done": len(trials),
        "wall_secs": answer["ended"] - began,
        "first_secs": measured[0].secs if measured else None,
        "points": [_point(point) for point in improvements(measured)],
        "final": answer["final"],
        "outcomes": dict(Counter(trial["outcome"] for trial in trials)),
        "stage_secs": {"search": answer["search_secs"]},
    }


def _ours(order: dict[str, Any]) -> dict[str, Any]:
    began = time.time()
    with running_farm() as farm:
        if farm.target != order["target"]:
            raise RuntimeError(f"the local worker serves {farm.target}, not {order['target']}")
        job = farm.tune(job_body(order))
        wall_secs = time.time() - began
        return {"wall_secs": wall_secs, **_found(farm, job, began)}


def job_body(order: Mapping[str, Any]) -> dict[str, Any]:
    """What is submitted; one isolation key per run."""
    name = f"bench-{order['workload']}-{order['seed']}"
    return {
        "name": name,
        "module": json.loads(order["module"]),
        "target": "local",
        "max_trials": order["trials"],
        # The same space on both sides: what is compared is the service.
        "space": "stock",
        "seed": order["seed"],
        "options": {"isolation_key": name, **order["options"]},
    }


def _found(farm: Farm, job: Mapping[str, Any], began: float) -> dict[str, Any]:
    trials = searched(farm.trials(job["id"]))
    trials.sort(key=lambda trial: str(trial["done_at"]))
    measured = [
        Measured(
            secs=epoch_secs(trial["done_at"]) - began,
            latency_secs=trial["latency_secs"] if trial["outcome"] == "ok" else None,
            trace=trial["id"],
        )
        for trial in trials
    ]
    points = [_point(point) for point in improvements(measured)]
    for point in points:
        point["trace"] = farm.trial_trace(point["trace"])
    return {
        "trials_done": len(trials),
        "first_secs": measured[0].secs if measured else None,
        "points": points,
        "final": farm.best_trace(job["tasks"][0]["id"]),
        "outcomes": job["outcomes"],
        "stage_secs": job["stage_secs"],
    }


def _point(point: Any) -> dict[str, Any]:
    return {name: getattr(point, name) for name in ("trials", "secs", "latency_secs", "trace")}


if __name__ == "__main__":
    main()
