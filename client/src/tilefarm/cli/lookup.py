"""`tilefarm lookup`: would a compile of this file find records? It needs TVM, for the hash."""

import argparse
from pathlib import Path
from typing import Any

from tilefarm import module, tune
from tilefarm import target as targets
from tilefarm.cli import output, sources
from tilefarm.cli.exits import Exit
from tilefarm.errors import ModuleError
from tilefarm.progress import latency_text


def add(commands: Any, shared: argparse.ArgumentParser) -> None:
    command = commands.add_parser(
        "lookup", parents=[shared], help="which functions of a file have a record for a target"
    )
    command.add_argument(
        "file", type=Path, metavar="FILE", help="a module's JSON, a job's JSON, or a .py file"
    )
    command.add_argument("--target", default="local", help="profile name, tag, or JSON (default: local)")
    command.add_argument(
        "--function", action="append", default=[], metavar="NAME", help="of a .py file; repeatable"
    )
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> Exit:
    mod = sources.module_of(sources.read(arguments.file, functions=arguments.function))
    functions = {name: func for name, func in module.prim_funcs(mod) if not module.is_scheduled(func)}
    if not functions:
        raise ModuleError(f"{arguments.file} has no PrimFunc that is not scheduled already")
    hashes = {name: module.workload_of(func).shash for name, func in functions.items()}
    with arguments.connect() as client:
        target = targets.of_tvm(tune.tvm_target(arguments.target, client))
        answer = client.lookup(target, tvm_version=module.tvm_version(), workloads=list(hashes.values()))
    records = answer.get("records") or {}
    if arguments.output == "json":
        output.print_json({"functions": hashes, **answer})
    else:
        nearest = {item.get("shash"): item for item in answer.get("missing") or []}
        rows = [
            (name, shash, *_cells(records.get(shash), nearest.get(shash))) for name, shash in hashes.items()
        ]
        output.print_table(("function", "workload", "record", "latency", "nearest"), rows)
    return Exit.OK if all(records.get(shash) for shash in hashes.values()) else Exit.NO_RECORD


def _cells(found: list[dict[str, Any]] | None, missing: dict[str, Any] | None) -> tuple[Any, ...]:
    if found:
        secs = found[0].get("latency_secs")
        return (found[0].get("record_id"), latency_text(secs) if secs else None, None)
    return (None, None, (missing or {}).get("nearest"))
