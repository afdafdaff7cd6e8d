"""`tilefarm import`: what stock MetaSchedule measured goes to the service, where it stands in quarantine."""

import argparse
from pathlib import Path
from typing import Any

from tilefarm import module, stockreading
from tilefarm.cli import output
from tilefarm.cli.exits import Exit
from tilefarm.client import Client
from tilefarm.errors import ProblemError
from tilefarm.stockreading import Batch, Skipped


def add(commands: Any, shared: argparse.ArgumentParser) -> None:
    command = commands.add_parser(
        "import",
        parents=[shared],
        help="send stock MetaSchedule's JSON database to the service, into quarantine",
        description="DIR holds database_workload.json and database_tuning_record.json. Lines that do not "
        "read, failed measurements, and targets that the service does not tune for are counted and left out. "
        "No lookup returns an imported record. The token needs the scope records:import.",
    )
    command.add_argument("directory", type=Path, metavar="DIR")
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> Exit:
    skipped = Skipped()
    done = {"quarantined": 0, "known": 0, "refused": 0}
    with arguments.connect() as client:
        for batch in stockreading.read(arguments.directory, skipped):
            _send(client, batch, done, source=str(arguments.directory.resolve().name))
    counts = {**done, **skipped.counts()}
    if arguments.output == "json":
        output.print_json(counts)
    else:
        print(", ".join(f"{count} {name.replace('_', ' ')}" for name, count in counts.items()))
    return Exit.FAILED if done["refused"] else Exit.OK


def _send(client: Client, batch: Batch, done: dict[str, int], *, source: str) -> None:
    try:
        answer = client.import_records(
            batch.module,
            batch.target,
            tvm_version=module.tvm_version(),
            records=[{"trace": trace, "run_secs": run_secs} for trace, run_secs in batch.records],
            source=source,
        )
    except ProblemError as problem:
        if problem.status != 422:
            raise
        output.say(f"workload {batch.shash}: {problem}")
        done["refused"] += len(batch.records)
        return
    done["quarantined"] += len(answer.get("quarantined") or [])
    done["known"] += int(answer.get("known") or 0)
    refused = answer.get("refused") or []
    done["refused"] += len(refused)
    for one in refused:
        output.say(f"workload {batch.shash}: record refused: {one.get('detail')}")
