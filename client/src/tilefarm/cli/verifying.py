"""`tilefarm verify`, `tilefarm imports`: the way of imported records out of quarantine, and where they stand.

The farm measures them itself, on one job; what holds and wins it publishes as records of its own.
"""

import argparse
from itertools import islice
from typing import Any

from tilefarm import module, tune
from tilefarm import target as targets
from tilefarm.cli import output
from tilefarm.cli.exits import Exit
from tilefarm.cli.jobs import follow
from tilefarm.progress import latency_text


def add(commands: Any, shared: argparse.ArgumentParser) -> None:
    verify = commands.add_parser(
        "verify",
        parents=[shared],
        help="have the farm measure imported records, and publish those that hold",
        description="A job measures the imports that claim to be fastest: it builds them, compares outputs "
        "with the untuned program's, times them against what is published. The token needs records:import.",
    )
    _add_target(verify)
    verify.add_argument("--top", type=int, default=3, help="of each workload so many (default: 3)")
    verify.add_argument("--workload", action="append", default=[], metavar="HASH", help="repeatable")
    verify.add_argument("--watch", action="store_true", help="stay until the job has ended")
    verify.set_defaults(run=_verify)
    listing = commands.add_parser(
        "imports", parents=[shared], help="imported records of a target, and what became of them"
    )
    _add_target(listing)
    listing.add_argument("--limit", type=_count, default=50, help="the newest so many (default: 50)")
    listing.set_defaults(run=_list)


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 up")
    return int(text)


def _add_target(command: argparse.ArgumentParser) -> None:
    command.add_argument("--target", default="local", help="profile name, tag, or JSON (default: local)")


def _verify(arguments: argparse.Namespace) -> Exit:
    with arguments.connect() as client:
        answer = client.verify_imports(
            tune.travelling_target(arguments.target),
            tvm_version=module.tvm_version(),
            top=arguments.top,
            workloads=arguments.workload,
        )
        if arguments.watch:
            return follow(client.job(str(answer["job_id"])), output_format=arguments.output)
    if arguments.output == "json":
        output.print_json(answer)
    else:
        count = len(answer.get("records") or [])
        print(f"job {answer['job_id']} measures {count} imports of {answer.get('workloads')} workloads")
        print(f"follow it: tilefarm watch {answer['job_id']}; then: tilefarm imports")
    return Exit.OK


def _list(arguments: argparse.Namespace) -> Exit:
    with arguments.connect() as client:
        key = targets.key(targets.of_tvm(tune.tvm_target(arguments.target, client)))
        found = list(islice(client.records(target_key=key, state="quarantined"), arguments.limit))
    if arguments.output == "json":
        output.print_json(found)
        return Exit.OK
    header = ("record", "workload", "claimed", "from", "state", "measured", "published as", "why")
    output.print_table(header, [_row(record) for record in found])
    return Exit.OK


def _row(record: dict[str, Any]) -> tuple[Any, ...]:
    verification = record.get("verification") or {}
    measured = verification.get("latency_secs")
    why = verification.get("error") or verification.get("outcome") or ""
    return (
        record.get("id"),
        record.get("workload"),
        latency_text(float(record.get("latency_secs") or 0.0)),
        (record.get("policy") or {}).get("imported_by"),
        verification.get("state"),
        None if measured is None else latency_text(measured),
        verification.get("published_id"),
        why[:80] if verification.get("state") == "refuted" else None,
    )
