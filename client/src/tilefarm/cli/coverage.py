"""`tilefarm coverage`: how much of a file's functions is tuned for a target, task by task."""

import argparse
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tilefarm import anchor, module, tune
from tilefarm import target as targets
from tilefarm.cli import output, sources
from tilefarm.cli.exits import Exit
from tilefarm.cli.tasks import add_pipeline, tasks_of
from tilefarm.extraction import ExtractedTask
from tilefarm.near import ANCHOR_BLOCK
from tilefarm.progress import duration_text, latency_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One workload; functions that are the same computation share it."""

    functions: list[str]
    workload: str
    #: hit; near (there is a record for another target or TVM, which no compile gets, or, with `--near`, one
    #: by the rule that `rule` names); or miss.
    result: str
    rule: str | None
    #: How many functions of the file it stands for, or calls of the model.
    weight: int
    latency_secs: float | None
    age_secs: float | None
    nearest: str | None


def add(commands: Any, shared: argparse.ArgumentParser) -> None:
    command = commands.add_parser(
        "coverage", parents=[shared], help="how much of a file is tuned for a target, task by task"
    )
    command.add_argument(
        "file", type=Path, metavar="FILE", help="a module's JSON, a job's JSON, or a .py file"
    )
    command.add_argument("--target", default="local", help="profile name, tag, or JSON (default: local)")
    command.add_argument("--function", action="append", default=[], metavar="NAME")
    add_pipeline(command)
    command.add_argument(
        "--min-percent", type=float, default=0.0, help="exit 5 where less of the functions is tuned"
    )
    command.add_argument(
        "--near",
        action="append",
        default=[],
        choices=["num-cores", "mcpu-family", "anchor-block"],
        help="show what connect(near=...) would use; repeatable",
    )
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> Exit:
    source = sources.read(arguments.file, functions=arguments.function)
    functions: dict[str, list[ExtractedTask]] = {}
    anchors: dict[str, str | None] = {}
    with arguments.connect() as client:
        tvm_target = tune.tvm_target(arguments.target, client)
        for task in tasks_of(source, tvm_target, pipeline=arguments.pipeline):
            workload = module.workload_of(task.func)
            functions.setdefault(workload.shash, []).append(task)
            if ANCHOR_BLOCK in arguments.near:
                anchors[workload.shash] = anchor.hash_of(workload.module)
        target = targets.of_tvm(tvm_target)
        answer = client.lookup_near(
            target,
            tvm_version=module.tvm_version(),
            workloads=list(functions),
            rules=arguments.near,
            anchors={shash: hashed for shash, hashed in anchors.items() if hashed is not None},
        )
    rows = [_row(shash, tasks, answer) for shash, tasks in functions.items()]
    total = sum(row.weight for row in rows)
    percent = 100.0 * sum(row.weight for row in rows if row.result == "hit") / total
    if arguments.output == "json":
        output.print_json({"target": target, "percent": percent, "tasks": [asdict(row) for row in rows]})
    else:
        _print(rows, percent)
    return Exit.NO_RECORD if percent < arguments.min_percent else Exit.OK


def _row(shash: str, tasks: list[ExtractedTask], answer: dict[str, Any]) -> Row:
    found = (answer.get("records") or {}).get(shash)
    near = (answer.get("near") or {}).get(shash) or {}
    record = found[0] if found else near
    nearest = next(
        (item.get("nearest") for item in answer.get("missing") or [] if item.get("shash") == shash), None
    )
    return Row(
        functions=[task.name for task in tasks],
        workload=shash,
        result="hit" if found else "near" if near or nearest else "miss",
        rule=near.get("rule"),
        weight=sum(task.weight for task in tasks),
        latency_secs=record.get("latency_secs"),
        age_secs=_age_secs(record.get("created_at")),
        nearest=nearest,
    )


def _age_secs(created_at: Any) -> float | None:
    try:
        created = datetime.fromisoformat(str(created_at))
    except ValueError:
        return None
    aware = created if created.tzinfo is not None else created.replace(tzinfo=UTC)
    return max((datetime.now(UTC) - aware).total_seconds(), 0.0)


def _print(rows: list[Row], percent: float) -> None:
    output.print_table(
        ("functions", "workload", "result", "weight", "latency", "age", "nearest"),
        [
            (
                ", ".join(row.functions),
                row.workload,
                row.result if row.rule is None else f"{row.result} ({row.rule})",
                row.weight,
                None if row.latency_secs is None else latency_text(row.latency_secs),
                None if row.age_secs is None else duration_text(row.age_secs),
                row.nearest,
            )
            for row in rows
        ],
    )
    print(f"{percent:.0f} % of the functions are tuned")
