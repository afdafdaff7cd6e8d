"""Tables as CSV and as JSON, whole, in base units: seconds, not microseconds. Rows go as they come."""

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any

from fastapi import Response
from fastapi.responses import StreamingResponse

#: What a spreadsheet takes for a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_MEDIA_TYPES = {"csv": "text/csv; charset=utf-8", "json": "application/json"}


class Form(StrEnum):
    CSV = "csv"
    JSON = "json"


def table(name: str, form: Form, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> Response:
    """A file for the browser to save; of each row the named columns."""
    write = _csv if form is Form.CSV else _json
    headers = {
        "Content-Disposition": f'attachment; filename="{name}.{form}"',
        "Cache-Control": "no-store",
        "X-Content-Type-Options": "nosniff",
    }
    return StreamingResponse(write(columns, rows), media_type=_MEDIA_TYPES[form], headers=headers)


def _csv(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """A column may be named by a submitter's blocks, so names are cells too."""
    yield _line(columns)
    for row in rows:
        yield _line([row[column] for column in columns])


def _line(values: Iterable[object]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer).writerow([_cell(value) for value in values])
    return buffer.getvalue()


def _json(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    before = "[\n"
    for row in rows:
        yield before + json.dumps({column: row[column] for column in columns}, default=str)
        before = ",\n"
    yield "[]\n" if before == "[\n" else "\n]\n"


def _cell(value: object) -> object:
    """A text that a spreadsheet would run as a formula gets an apostrophe before it."""
    if isinstance(value, str) and value.startswith(_FORMULA):
        return f"'{value}"
    return json.dumps(value, default=str) if isinstance(value, (dict, list)) else value
