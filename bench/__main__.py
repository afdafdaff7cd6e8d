"""`make bench`: evolution against random search at equal trials, and where the seconds of a job go.

Both run on the embedded service, one job at a time, A and B interleaved, each with its own isolation key.
Final schedules are timed by one careful evaluator for both. The table goes to docs/benchmarks.md, the
raw data to .bench/.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

from bench import report
from bench.evaluate import latencies_secs, median_secs
from bench.farm import Farm, running_farm
from bench.workloads import matmul_json

_STRATEGIES = ("evolutionary", "random")


def main() -> int:
    arguments = _arguments()
    module = matmul_json(arguments.size)
    with tempfile.TemporaryDirectory(prefix="tilefarm-bench-") as directory:
        with running_farm(Path(directory) / "data") as farm:
            runs = [
                _run(farm, module, strategy=strategy, seed=seed, trials=arguments.trials)
                for seed in range(arguments.seeds)
                for strategy in _order(seed)
            ]
            target = farm.target
        traces = {f"{run['strategy']}-{run['seed']}": run["trace"] for run in runs}
        times = latencies_secs(module, {"untuned": None, **traces}, target)
    medians = median_secs(times)
    for run in runs:
        run["careful_secs"] = medians[f"{run['strategy']}-{run['seed']}"]
    flops = 2.0 * arguments.size**3
    results = {
        "workload": f"matmul {arguments.size}³ float32",
        "trials": arguments.trials,
        "target": target,
        "untuned_secs": medians["untuned"],
        "flops": flops,
        "runs": runs,
        "times": times,
    }
    text = report.table(results)
    print(text)
    Path(".bench").mkdir(exist_ok=True)
    Path(".bench/strategies.json").write_text(json.dumps(results, indent=1))
    report.write_section(Path("docs/benchmarks.md"), "strategies", text)
    return 0


def _order(seed: int) -> tuple[str, ...]:
    """A and B change places from seed to seed."""
    return _STRATEGIES if seed % 2 == 0 else _STRATEGIES[::-1]


def _run(farm: Farm, module: str, *, strategy: str, seed: int, trials: int) -> dict[str, object]:
    began = time.monotonic()
    job = farm.tune(
        {
            "name": f"bench-{strategy}-{seed}",
            "module": json.loads(module),
            "target": "local",
            "max_trials": trials,
            "strategy": strategy,
            "seed": seed,
            "options": {"isolation_key": f"bench-{strategy}-{seed}"},
        }
    )
    wall_secs = time.monotonic() - began
    print(f"{strategy:>13} seed {seed}: {wall_secs:6.1f} s", file=sys.stderr, flush=True)
    return {
        "strategy": strategy,
        "seed": seed,
        "wall_secs": wall_secs,
        "outcomes": job["outcomes"],
        "stage_secs": job["stage_secs"],
        "published_secs": job["tasks"][0]["best_latency_secs"],
        "curve": farm.best_so_far(job["id"]),
        "trace": farm.best_trace(job["tasks"][0]["id"]),
    }


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--size", type=int, default=512, help="the matmul's extent")
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--seeds", type=int, default=3)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
