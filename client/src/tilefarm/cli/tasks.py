"""The tasks of a file: its functions as they stand, or those that a Relax model's compile will ask for."""

import argparse
from typing import Any

from tilefarm import model_tuning, module
from tilefarm.cli import sources
from tilefarm.errors import ModuleError
from tilefarm.extraction import PIPELINES, ExtractedTask


def add_pipeline(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--pipeline",
        choices=PIPELINES,
        default="compile_relax",
        help="of a model: how it is compiled (default: compile_relax)",
    )


def tasks_of(source: sources.Source, target: Any, *, pipeline: str) -> list[ExtractedTask]:
    """For a `tvm.target.Target`; of a model without its views. Raises ModuleError where there is none."""
    mod = sources.module_of(source)
    if source.is_model:
        return list(model_tuning.tunable(mod, None, target, pipeline=pipeline))
    found = [
        ExtractedTask(name=name, func=func, weight=1)
        for name, func in module.prim_funcs(mod)
        if not module.is_scheduled(func)
    ]
    if not found:
        raise ModuleError("the file has no PrimFunc that is not scheduled already")
    return found
