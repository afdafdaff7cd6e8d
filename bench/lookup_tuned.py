"""A tuned model's records asked for: traces of some dozens of instructions, modules of hundreds of nodes.

`measure` tunes one on a service of its own, as little as gives each task a record; then processes ask for the
whole model with an empty cache, and with a full one. One is `python -m bench.lookup_tuned URL TOKEN CACHE_DIR
MODEL TARGET`.
"""

import gc
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.machine import this_machine
from bench.report import markdown_table
from services.server.launch import launch

_MODELS = ("transformer", "cnn")
_TRIALS_PER_TASK = 8
_REPEATS = 5


def measure() -> tuple[str, dict[str, Any]]:
    """A Markdown table, and what it was made of."""
    with (
        tempfile.TemporaryDirectory(prefix="tilefarm-bench-") as directory,
        launch(Path(directory) / "data") as service,
    ):
        for model in _MODELS:
            _tune(model, service, directory)
        found: dict[str, Any] = {model: {"cold": [], "warm": []} for model in _MODELS}
        for repeat in range(_REPEATS):
            for model in _MODELS:
                cache = f"{directory}/cache-{model}-{repeat}"
                for kind in ("cold", "warm"):
                    found[model][kind].append(_ask(model, service, cache))
    return _table(found), {"models": found}


def _tune(model: str, service: Any, directory: str) -> None:
    import tilefarm
    from examples.models import models
    from tilefarm import model_tuning, tune

    made = models()[model]()
    target = tune.tvm_target(service.target, None)
    tasks = model_tuning.tunable(made.mod, made.tensors(), target, pipeline="compile_relax")
    tilefarm.tune_relax(
        made.mod,
        made.tensors(),
        service.target,
        f"{directory}/{model}",
        _TRIALS_PER_TASK * len(tasks),
        url=service.url,
        token=service.token,
    )


def _ask(model: str, service: Any, cache: str) -> dict[str, Any]:
    words = [service.url, service.token, cache, model, json.dumps(dict(service.target))]
    done = subprocess.run(
        [sys.executable, "-m", "bench.lookup_tuned", *words], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"{model}: {done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    import httpx
    import tvm

    import tilefarm
    import tilefarm.database
    from examples.models import models
    from tilefarm import model_tuning, module

    url, token, cache, name, target_json = sys.argv[1:]
    model, target = models()[name](), tvm.target.Target(json.loads(target_json))
    tasks = model_tuning.tunable(model.mod, model.tensors(), target, pipeline="compile_relax")
    modules = [tvm.IRModule({task.name: task.func}) for task in tasks]
    whole = tvm.IRModule({task.name: task.func for task in tasks})
    httpx.Client(verify=False).close()  # what it loads only then
    gc.collect()
    hashing_secs = _timed(lambda: [module.workload_of(mod) for mod in modules])
    database = tilefarm.connect(url, token, cache_dir=cache, timeout_secs=60, on_miss="silent")
    records: list[Any] = []

    def ask() -> None:
        database.prefetch(whole, target)
        records[:] = [database.query_tuning_record(mod, target, "main") for mod in modules]

    secs, again_secs = _timed(ask), _timed(ask)
    answer = {
        "tasks": len(tasks),
        "records": sum(record is not None for record in records),
        "instructions": [len(record.trace.insts) for record in records if record is not None],
        "hashing_secs": hashing_secs,
        "secs": secs,
        "again_secs": again_secs,
        "applying_secs": sum(_applying_secs(record) for record in records if record is not None),
    }
    print(json.dumps(answer))
    database.close()


def _applying_secs(record: Any) -> float:
    """What MetaScheduleApplyDatabase does with the record afterwards, in stock as well."""
    from tvm.s_tir import Schedule

    def apply() -> None:
        record.trace.apply_to_schedule(
            Schedule(record.workload.mod, debug_mask="none"), remove_postproc=False
        )

    return _timed(apply)


def _timed(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def _table(found: dict[str, Any]) -> str:
    head = [
        *("model", "tasks", "cache", "instructions of a trace, median"),
        *("ms a task over hashing", "the same again", "of the compile: applying it, ms a task"),
    ]
    rows = [
        [
            model if kind == "cold" else "",
            f"{asked[0]['records']} of {asked[0]['tasks']}" if kind == "cold" else "",
            kind,
            f"{statistics.median(asked[0]['instructions']):.0f}",
            f"**{_per_task(asked, 'secs', over_hashing=True):.2f}**",
            f"{_per_task(asked, 'again_secs', over_hashing=True):.2f}",
            f"{_per_task(asked, 'applying_secs'):.2f}",
        ]
        for model, kinds in found.items()
        for kind, asked in kinds.items()
    ]
    hashing = _per_task([each for kinds in found.values() for each in kinds["warm"]], "hashing_secs")
    told = (
        f"{this_machine()}. Medians of {_REPEATS} processes; {_TRIALS_PER_TASK} trials a task. Cold: an "
        "empty cache, one request for the model, each trace tried before the compile sees it. Warm: a new "
        "process, the cache on disk. TVM and httpx are loaded before. "
        f"Hashing itself: {hashing:.2f} ms a task."
    )
    return "\n".join([told, "", *markdown_table(head, rows)])


def _per_task(asked: list[dict[str, Any]], name: str, *, over_hashing: bool = False) -> float:
    """Median, ms."""
    return 1e3 * statistics.median(
        (each[name] - (each["hashing_secs"] if over_hashing else 0.0)) / each["tasks"] for each in asked
    )


if __name__ == "__main__":
    main()
