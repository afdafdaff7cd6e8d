"""`tilefarm lock`: pins the records of a file's functions, for reproducible builds with no network.

A record is pinned only if a compile would take it: it was applied here under every guard.
"""

import argparse
from pathlib import Path
from statistics import median
from typing import Any

from tilefarm import answers, applied, lockfile, module, tune
from tilefarm import target as targets
from tilefarm.answers import Answer, Record
from tilefarm.cli import output, sources
from tilefarm.cli.exits import Exit
from tilefarm.cli.tasks import add_pipeline, tasks_of
from tilefarm.progress import latency_text
from tilefarm.signatures import Verifier


def add(commands: Any, connection: argparse.ArgumentParser) -> None:
    command = commands.add_parser(
        "lock",
        parents=[connection],
        help="pin the records of a file's functions for builds without a network",
        description="What is written is what TILEFARM_LOCK and tilefarm.connect(lock=...) read. Functions "
        "without a record are pinned as such: later tuning changes no build that uses the file.",
    )
    command.add_argument(
        "file", type=Path, metavar="FILE", help="a module's JSON, a job's JSON, or a .py file"
    )
    command.add_argument("--target", default="local", help="profile name, tag, or JSON (default: local)")
    command.add_argument(
        "--function", action="append", default=[], metavar="NAME", help="of a .py file; repeatable"
    )
    add_pipeline(command)
    command.add_argument(
        "-o",
        "--output",
        dest="lock",
        type=Path,
        default=Path("tilefarm.lock"),
        metavar="FILE",
        help="default: tilefarm.lock",
    )
    command.add_argument(
        "--require-all", action="store_true", help="exit 5 and write nothing where a function has no record"
    )
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> Exit:
    source = sources.read(arguments.file, functions=arguments.function)
    with arguments.connect() as client:
        tvm_target = tune.tvm_target(arguments.target, client)
        tasks = tasks_of(source, tvm_target, pipeline=arguments.pipeline)
        names = [task.name for task in tasks]
        workloads = [module.workload_of(task.func) for task in tasks]
        target = targets.of_tvm(tvm_target)
        shashes = list(dict.fromkeys(workload.shash for workload in workloads))
        version = module.tvm_version()
        body = client.lookup(target, tvm_version=version, workloads=shashes)
    found = answers.parse(body, target, version, shashes)
    functions: dict[str, list[str]] = {}
    for name, workload in zip(names, workloads, strict=True):
        functions.setdefault(workload.shash, []).append(name)
    key, verifier = targets.key(target), Verifier.of(client.settings.public_key)
    records = {
        workload.shash: _pinned(found[workload.shash], workload, verifier, key) for workload in workloads
    }
    rows = [
        (name, workload.shash, *_cells(records[workload.shash]))
        for name, workload in zip(names, workloads, strict=True)
    ]
    output.print_table(("function", "workload", "record", "latency"), rows)
    missing = [name for name, _, record, _ in rows if record is None]
    if missing:
        output.say(f"without a record: {', '.join(missing)}")
    if missing and arguments.require_all:
        return Exit.NO_RECORD
    lockfile.write(
        arguments.lock,
        lockfile.Lock(
            target=target,
            profile=None if arguments.target.lstrip().startswith("{") else arguments.target,
            tvm_version=version,
            records=records,
            functions=functions,
        ),
    )
    output.say(f"wrote {arguments.lock}; builds use it by TILEFARM_LOCK={arguments.lock}")
    return Exit.OK


def _pinned(
    answer: Answer, workload: module.Workload, verifier: Verifier | None, target_key: str
) -> Record | None:
    if not isinstance(answer, Record):
        return None
    try:
        if verifier is not None:
            verifier.check(answer, target_key=target_key)
        applied.apply(answer, workload)
    except Exception as error:  # noqa: BLE001 - TVM raises errors of many kinds for a trace that does not apply
        output.say(f"record {answer.record_id} of {workload.shash} does not apply: {error}")
        return None
    return answer


def _cells(record: Record | None) -> tuple[Any, ...]:
    return (None, None) if record is None else (record.record_id, latency_text(median(record.run_secs)))
