"""How the CLI prints: tables and lines for people, JSON for programs (`-o json`)."""

import json
import sys
from collections.abc import Sequence
from typing import Any


def print_json(value: Any) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False))


def print_json_line(value: Any) -> None:
    print(json.dumps(value, ensure_ascii=False), flush=True)


def print_table(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    cells = [[_text(cell) for cell in row] for row in rows]
    widths = [max(len(title), *(len(row[i]) for row in cells), 0) for i, title in enumerate(header)]
    for line in ([title.upper() for title in header], *cells):
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def say(text: str) -> None:
    """For people, beside the output proper."""
    print(text, file=sys.stderr)


def _text(cell: Any) -> str:
    if cell is None:
        return "-"
    text = str(cell)
    return "".join(letter if letter.isprintable() else " " for letter in text)
