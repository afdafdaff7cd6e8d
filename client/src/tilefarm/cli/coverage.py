"""`tilefarm coverage`: how much of a file's functions is tuned for a target, task by task."""

import argparse
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tilefarm import anchor, expected, module, tune
from tilefarm import target as targets
from tilefarm.cli import output, sources
from tilefarm.cli.exits import Exit
from tilefarm.cli.tasks import add_pipeline, tasks_of
from tilefarm.client import Client
from tilefarm.errors import ProblemError
from tilefarm.expected import Gain
from tilefarm.extraction import ExtractedTask
from tilefarm.near import ANCHOR_BLOCK
from tilefarm.progress import duration_text, latency_text

#: Of how many times as fast; below it the estimate says nothing.
_WORTH_TELLING = 1.1


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
    #: What tuning (of a hit: tuning on) would be expected to bring; None where nothing similar was tuned.
    gain: Gain | None


def add(commands: Any, shared: argparse.ArgumentParser) -> None:
    command = commands.add_parser(
        "coverage",
        parents=[shared],
        help="how much of a file is tuned for a target, task by task",
        description="gain is what tuning would be expected to bring, of a miss against the untuned "
        "function, of a hit against its record: an estimate, from tuned workloads that do about as much work "
        "on about as many bytes.",
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
    works: dict[str, dict[str, float]] = {}
    anchors: dict[str, str | None] = {}
    with arguments.connect() as client:
        tvm_target = tune.tvm_target(arguments.target, client)
        for task in tasks_of(source, tvm_target, pipeline=arguments.pipeline):
            workload = module.workload_of(task.func)
            functions.setdefault(workload.shash, []).append(task)
            work = expected.work_of(workload.module)
            if work is not None:
                works[workload.shash] = work
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
        expectations = _expectations(client, target, works)
    rows = [_row(shash, tasks, answer, expectations.get(shash)) for shash, tasks in functions.items()]
    total = sum(row.weight for row in rows)
    percent = 100.0 * sum(row.weight for row in rows if row.result == "hit") / total
    if arguments.output == "json":
        output.print_json({"target": target, "percent": percent, "tasks": [asdict(row) for row in rows]})
    else:
        _print(rows, percent)
    return Exit.NO_RECORD if percent < arguments.min_percent else Exit.OK


def _expectations(
    client: Client, target: dict[str, Any], works: dict[str, dict[str, float]]
) -> dict[str, Any]:
    """Nothing where the service is older than this question."""
    try:
        return client.expectations(target, tvm_version=module.tvm_version(), workloads=works)
    except ProblemError as error:
        if error.status not in (404, 405):
            raise
        return {}


def _row(
    shash: str, tasks: list[ExtractedTask], answer: dict[str, Any], expectation: dict[str, Any] | None
) -> Row:
    found = (answer.get("records") or {}).get(shash)
    near = (answer.get("near") or {}).get(shash) or {}
    record = found[0] if found else near
    nearest = next(
        (item.get("nearest") for item in answer.get("missing") or [] if item.get("shash") == shash), None
    )
    weight = sum(task.weight for task in tasks)
    return Row(
        functions=[task.name for task in tasks],
        workload=shash,
        result="hit" if found else "near" if near or nearest else "miss",
        rule=near.get("rule"),
        weight=weight,
        latency_secs=record.get("latency_secs"),
        age_secs=_age_secs(record.get("created_at")),
        nearest=nearest,
        gain=expected.gain(
            expectation, latency_secs=record.get("latency_secs") if found else None, weight=weight
        ),
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
        ("functions", "workload", "result", "weight", "latency", "age", "gain", "nearest"),
        [
            (
                ", ".join(row.functions),
                row.workload,
                row.result if row.rule is None else f"{row.result} ({row.rule})",
                row.weight,
                None if row.latency_secs is None else latency_text(row.latency_secs),
                None if row.age_secs is None else duration_text(row.age_secs),
                None if row.gain is None else _gain_text(row.gain),
                row.nearest,
            )
            for row in rows
        ],
    )
    gains = [row.gain.secs for row in rows if row.gain is not None and row.result != "hit"]
    if gains:
        print(f"expected of tuning what is not: {latency_text(sum(gains))} less a call")
    print(f"{percent:.0f} % of the functions are tuned")


def _gain_text(gain: Gain) -> str:
    """How many times as fast, and what that saves in a call of the model."""
    if gain.factor < _WORTH_TELLING:
        return "none"
    return f"{gain.factor:.1f}x, {latency_text(gain.secs)}"
