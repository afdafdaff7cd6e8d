"""`tilefarm import`: what stock MetaSchedule measured goes to the service, where it stands in quarantine."""

import argparse
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tilefarm import module, stockreading
from tilefarm.cli import output
from tilefarm.cli.exits import Exit
from tilefarm.client import Client
from tilefarm.stockreading import Batch, Skipped

#: Of one request: the service replays each record, and takes 4 MiB and 256 workloads.
_MAX_RECORDS = 256
_MAX_CHARS = 2 << 20


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
    source = str(arguments.directory.resolve().name)
    with arguments.connect() as client, ThreadPoolExecutor(max_workers=1) as sender:
        # The next request is read while the service works on the last: no more than two are held.
        sent: Future[None] | None = None
        for batches in _requests(stockreading.read(arguments.directory, skipped)):
            if sent is not None:
                sent.result()
            sent = sender.submit(_send, client, batches, done, source)
        if sent is not None:
            sent.result()
    counts = {**done, **skipped.counts()}
    if arguments.output == "json":
        output.print_json(counts)
    else:
        print(", ".join(f"{count} {name.replace('_', ' ')}" for name, count in counts.items()))
    return Exit.FAILED if done["refused"] else Exit.OK


def _requests(found: Iterator[Batch]) -> Iterator[list[Batch]]:
    """Batches of several workloads together, as many as one request takes."""
    waiting: list[Batch] = []
    records, chars = 0, 0
    for batch in found:
        if waiting and (records + len(batch.records) > _MAX_RECORDS or chars + batch.chars > _MAX_CHARS):
            yield waiting
            waiting, records, chars = [], 0, 0
        waiting.append(batch)
        records += len(batch.records)
        chars += batch.chars
    if waiting:
        yield waiting


def _send(client: Client, batches: list[Batch], done: dict[str, int], source: str) -> None:
    workloads = [
        {
            "target": batch.target,
            "module": batch.module,
            "records": [{"trace": trace, "run_secs": run_secs} for trace, run_secs in batch.records],
        }
        for batch in batches
    ]
    answers = client.import_many(workloads, tvm_version=module.tvm_version(), source=source)
    for batch, answer in zip(batches, answers, strict=True):
        taken, refusal = answer.get("taken"), answer.get("refused") or {}
        if not isinstance(taken, dict):
            output.say(f"workload {batch.shash} is refused: {refusal.get('detail')} ({refusal.get('code')})")
            done["refused"] += len(batch.records)
            continue
        done["quarantined"] += len(taken.get("quarantined") or [])
        done["known"] += int(taken.get("known") or 0)
        refused = taken.get("refused") or []
        done["refused"] += len(refused)
        for one in refused:
            output.say(f"workload {batch.shash}: record refused: {one.get('detail')}")
