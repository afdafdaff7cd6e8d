"""`python -m bench models`: latency of whole models before and after the farm tuned them.

Each model is tuned by `tilefarm.tune_relax` on a fresh embedded service and timed in a process of its own.
One model a run keeps a run short; results are kept, and the table is of all that this machine has measured.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

from bench import report
from bench.machine import commit, this_machine
from bench.model_times import MIXTURE, times
from services.server.launch import launch

_NAMES = ("mlp", MIXTURE, "cnn", "resnet", "transformer")
_RESULTS = "models.json"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--models", nargs="+", choices=_NAMES, default=list(_NAMES))
    parser.add_argument("--trials", type=int, default=64, help="per task")


def main(arguments: argparse.Namespace) -> int:
    results = _kept()
    for name in arguments.models:
        results["models"][name] = _tuned(name, trials=arguments.trials)
        report.write_json(_RESULTS, results)
    text = _table(results)
    report.write_section("models", text)
    print(text)
    return 0


def _tuned(name: str, *, trials: int) -> dict[str, Any]:
    import tilefarm
    from tilefarm import model_tuning, tune

    with (
        tempfile.TemporaryDirectory(prefix="tilefarm-bench-") as directory,
        launch(Path(directory) / "data") as service,
    ):
        began = time.monotonic()
        mod, params, pipeline = _model(name)
        tasks = model_tuning.tunable(mod, params, tune.tvm_target(service.target, None), pipeline=pipeline)
        tilefarm.tune_relax(
            mod,
            params,
            service.target,
            directory,
            trials * len(tasks),
            pipeline=pipeline,
            url=service.url,
            token=service.token,
        )
        tuning_secs = time.monotonic() - began
        measured = times(name, url=service.url, token=service.token, target=service.target)
    return {
        **measured,
        "tasks": len(tasks),
        "trials": trials * len(tasks),
        "tuning_secs": tuning_secs,
        "target": service.target,
        "commit": commit(),
    }


def _model(name: str) -> tuple[Any, dict[str, Any] | None, str]:
    """Module, parameters, and how it is compiled."""
    from examples.mixture import mixture
    from examples.models import models

    if name == MIXTURE:
        return mixture(), None, "as_is"
    model = models()[name]()
    return model.mod, model.tensors(), "compile_relax"


def _kept() -> dict[str, Any]:
    """Of earlier runs on this machine."""
    path, machine = report.RESULTS / _RESULTS, this_machine()
    if path.exists():
        kept: dict[str, Any] = json.loads(path.read_text())
        if kept.get("machine") == machine.key:
            return kept
    return {"machine": machine.key, "models": {}}


def _table(results: dict[str, Any]) -> str:
    measured = {name: results["models"][name] for name in _NAMES if name in results["models"]}
    head = (
        "model",
        "tasks",
        "trials",
        "tuning, s",
        "untuned, µs",
        "tuned, µs",
        "×",
        "hits, misses",
        "largest difference",
        "to numpy",
    )
    rows = [
        (
            name,
            str(found["tasks"]),
            str(found["trials"]),
            report.number(found["tuning_secs"], 0),
            report.micros(found["untuned_secs"]),
            report.micros(found["tuned_secs"]),
            f"**{found['untuned_secs'] / found['tuned_secs']:.1f}**",
            f"{found['hits']}, {found['misses']}",
            f"{found['difference']:.0e}",
            f"{found['difference_to_numpy']:.0e}" if "difference_to_numpy" in found else "–",
        )
        for name, found in measured.items()
    ]
    last = list(measured.values())[-1]
    intro = (
        f"{this_machine()}; target `{report.target_text(last['target'])}`; commit {last['commit']}.\n"
        "Tuning is wall-clock, with all of the service on the machine that measures. A view of a tensor is\n"
        "asked for and not tuned: a miss.\n"
    )
    return "\n".join([intro, *report.markdown_table(head, rows)])
