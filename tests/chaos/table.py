"""The table of the faults: printed, written as JSON, and put into the docs between its marks."""

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path

from tests.chaos.fault import Row

_MARKS = ("<!-- chaos -->", "<!-- /chaos -->")
_HEAD = (
    "| fault | injected | trials | seconds to recover | lost | doubled | |",
    "|---|---|---|---|---|---|---|",
)


def markdown(rows: Sequence[Row]) -> str:
    return "\n".join([*_HEAD, *(_line(row) for row in rows)])


def _line(row: Row) -> str:
    if row.not_run is not None:
        return f"| {row.fault} | not run: {row.not_run} | | | | | |"
    secs = "" if row.recovery_secs is None else f"{row.recovery_secs:.1f}"
    note = "; ".join([*(f"**{word}**" for word in row.wrong), *([row.note] if row.note else [])])
    return f"| {row.fault} | {row.injected} | {row.trials} | {secs} | {row.lost} | {row.doubled} | {note} |"


def write_json(path: Path, rows: Sequence[Row]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps([dataclasses.asdict(row) for row in rows], indent=1) + "\n")


def read_json(path: Path) -> list[Row]:
    return [Row(**row) for row in json.loads(path.read_text())] if path.exists() else []


def write_docs(path: Path, rows: Sequence[Row]) -> None:
    """Between the marks of the document."""
    before, _, rest = path.read_text().partition(_MARKS[0])
    _, _, after = rest.partition(_MARKS[1])
    path.write_text(f"{before}{_MARKS[0]}\n{markdown(rows)}\n{_MARKS[1]}{after}")
