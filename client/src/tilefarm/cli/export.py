"""`tilefarm export`: a target's records as the two files that stock MetaSchedule reads."""

import argparse
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tilefarm import answers, applied, module, tune
from tilefarm import target as targets
from tilefarm.cli import output
from tilefarm.cli.exits import Exit
from tilefarm.client import Client
from tilefarm.signatures import Verifier
from tilefarm.stockfiles import StockFiles

#: Workloads of one lookup.
_BATCH = 100
#: Structural hash, what else is known of the origin, record.
_Found = tuple[str, dict[str, Any], answers.Record]


def add(commands: Any, shared: argparse.ArgumentParser) -> None:
    command = commands.add_parser(
        "export",
        parents=[shared],
        help="write a target's records as stock MetaSchedule's JSON database",
        description="DIR gets database_workload.json and database_tuning_record.json, which stock's "
        "JSONDatabase loads, and database_provenance.json, which says line by line where a record came from.",
    )
    command.add_argument("directory", type=Path, metavar="DIR")
    command.add_argument("--target", default="local", help="profile name, tag, or JSON (default: local)")
    command.add_argument(
        "--imports", action="store_true", help="what was imported, all of it, in place of what is published"
    )
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> Exit:
    skipped = 0
    with arguments.connect() as client, StockFiles(arguments.directory) as files:
        tvm_target = tune.tvm_target(arguments.target, client)
        target = targets.of_tvm(tvm_target)
        verifier = None if arguments.imports else Verifier.of(client.settings.public_key)
        for shash, origin, answer in (_imported if arguments.imports else _published)(client, target):
            try:
                if verifier is not None:
                    verifier.check(answer, target_key=targets.key(target))
                workload = module.workload_of(module.from_json(answer.module))
                found = applied.apply(answer, workload)
            except Exception as error:  # noqa: BLE001 - TVM raises errors of many kinds for what does not apply
                output.say(f"record {answer.record_id} is left out, it does not apply: {error}")
                skipped += 1
                continue
            files.add(found, tvm_target, {**_provenance(client.url, shash, answer, target), **origin})
        count = files.count
    if arguments.output == "json":
        output.print_json({"records": count, "skipped": skipped, "directory": str(arguments.directory)})
    else:
        print(f"wrote {count} records to {arguments.directory}")
    return Exit.FAILED if skipped else Exit.OK


def _published(client: Client, target: dict[str, Any]) -> Iterator[_Found]:
    """The current record of each workload."""
    version = module.tvm_version()
    shashes = _workloads(client, targets.key(target), version)
    while batch := list(itertools.islice(shashes, _BATCH)):
        body = client.lookup(target, tvm_version=version, workloads=batch)
        for shash, answer in answers.parse(body, target, version, batch).items():
            if isinstance(answer, answers.Record):
                yield shash, {}, answer


def _imported(client: Client, target: dict[str, Any]) -> Iterator[_Found]:
    """All that stands in quarantine, as it was brought."""
    version = module.tvm_version()
    for view in client.records(target_key=targets.key(target), state="quarantined"):
        if view.get("tvm_version") == version:
            detail = client.record(str(view.get("id")))
            record = answers.parse_record({**detail, "record_id": view.get("id")}, version)
            yield str(view.get("workload")), {"origin": detail.get("policy")}, record


def _workloads(client: Client, target_key: str, version: str) -> Iterator[str]:
    """Structural hashes of what has a published record of this TVM, each once."""
    seen: set[str] = set()
    for record in client.records(target_key=target_key, state="published"):
        shash = str(record.get("workload"))
        if record.get("tvm_version") == version and shash not in seen:
            seen.add(shash)
            yield shash


def _provenance(url: str, shash: str, record: answers.Record, target: Any) -> dict[str, Any]:
    return {
        "service": url,
        "record_id": record.record_id,
        "workload": shash,
        "target": target,
        "tvm_version": record.tvm_version,
        "etag": record.etag,
    }
