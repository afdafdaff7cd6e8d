"""`tilefarm submit`: a module in a file becomes a job."""

import argparse
import json
from pathlib import Path
from typing import Any

from tilefarm import tune
from tilefarm.cli import sources
from tilefarm.cli.exits import Exit
from tilefarm.cli.jobs import made
from tilefarm.client import Client
from tilefarm.extraction import PIPELINES
from tilefarm.jobs import Job
from tilefarm.space import NAMED
from tilefarm.tensors import fold_weights


def add(commands: Any, shared: argparse.ArgumentParser) -> None:
    command = commands.add_parser(
        "submit",
        parents=[shared],
        help="tune the functions of a file",
        description="FILE is a module's JSON, a job's JSON (a body of POST /v1/jobs), or a .py file that is "
        "run here: its IRModules and PrimFuncs are tuned. A module may be a Relax model: the service "
        "extracts its tasks, and its weights do not leave this host.",
    )
    command.add_argument("file", type=Path, metavar="FILE")
    command.add_argument("--target", help="profile name, tag, or JSON (default: local, or what the job says)")
    command.add_argument(
        "--max-trials", type=int, help="budget of the job (default: 128, or what the job says)"
    )
    command.add_argument("--max-trials-per-task", type=int)
    command.add_argument(
        "--function", action="append", default=[], metavar="NAME", help="of a .py file; repeatable"
    )
    command.add_argument(
        "--space",
        metavar="NAME",
        help="stock or tilefarm; of a .py file also its schedule function or SpaceGenerator",
    )
    command.add_argument(
        "--pipeline", choices=PIPELINES, help="of a model: how it will be compiled (default: compile_relax)"
    )
    command.add_argument(
        "--op-name", action="append", metavar="PART", help="of a model: only tasks with PART in their name"
    )
    command.add_argument(
        "--option",
        action="append",
        default=[],
        type=_option,
        metavar="NAME=VALUE",
        help="of measuring, searching or stopping, as patience=96; repeatable",
    )
    command.add_argument("--name")
    command.add_argument("--priority", type=int, help="-100 .. 100, higher is served first")
    command.add_argument("--seed", type=int)
    command.add_argument("--strategy", choices=["evolutionary", "random"])
    command.add_argument(
        "--idempotency-key", metavar="KEY", help="a retry with the same key makes no second job"
    )
    command.add_argument(
        "--watch", action="store_true", help="stay until it has ended; the exit code tells how"
    )
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> Exit:
    source = sources.read(arguments.file, functions=arguments.function)
    with arguments.connect() as client:
        return made(_submit(client, source, arguments), arguments)


def _option(text: str) -> tuple[str, Any]:
    """`patience=96`; the value is JSON, or a plain word."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def _submit(client: Client, source: sources.Source, arguments: argparse.Namespace) -> Job:
    fields = {
        "target": tune.travelling_target(arguments.target) if arguments.target else None,
        "max_trials": arguments.max_trials,
        "max_trials_per_task": arguments.max_trials_per_task,
        "name": arguments.name,
        "priority": arguments.priority,
        "seed": arguments.seed,
        "strategy": arguments.strategy,
        "pipeline": arguments.pipeline,
        "op_names": arguments.op_name,
    }
    body = {"target": "local", "max_trials": 128, **source.body}
    body |= {name: value for name, value in fields.items() if value is not None}
    if arguments.option:
        body["options"] = {**body.get("options", {}), **dict(arguments.option)}
    named = arguments.space in NAMED and arguments.space not in source.names
    if named:
        body["space"] = arguments.space
    if source.is_model:
        body["module"] = _weightless(source)
        if arguments.space and not named:
            raise sources.SourceError("--space is for functions; tilefarm.tune_relax takes spaces of a model")
    elif source.module is not None:
        body |= _of_python(client, source, arguments, body["target"])
    elif arguments.space and not named:
        raise sources.SourceError("--space names a function of a .py file")
    return client.submit_body(body, idempotency_key=arguments.idempotency_key)


def _weightless(source: sources.Source) -> Any:
    """A model's JSON graph with one zero in place of each weight."""
    found = source.body["module"] if source.module is None else _saved(source.module)
    try:
        return fold_weights(json.loads(found) if isinstance(found, str) else found)
    except (ValueError, KeyError, TypeError) as error:
        raise sources.SourceError(f"the model's JSON does not read: {error}") from error


def _saved(mod: Any) -> str:
    import tvm

    return str(tvm.ir.save_json(mod))


def _of_python(
    client: Client, source: sources.Source, arguments: argparse.Namespace, target: Any
) -> dict[str, Any]:
    chosen: Any = tune.DEFAULT_SPACE
    if arguments.space and (arguments.space in source.names or arguments.space not in NAMED):
        chosen = source.names.get(arguments.space)
        if chosen is None:
            raise sources.SourceError(f"{arguments.file} has nothing called {arguments.space}")
    fields = tune.travelling(
        source.module, target, client=client, space=chosen, special_space=None, seed=arguments.seed or 0
    )
    sent = {name: value for name, value in fields.items() if value is not None}
    return {"name": arguments.name or arguments.file.stem, **sent}
