"""Where results go: JSON to .bench/, Markdown between markers of docs/benchmarks.md, pictures beside it."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.machine import commit, this_machine

DOCUMENT = Path("docs/benchmarks.md")
PICTURES = Path("docs/benchmarks")
RESULTS = Path(".bench")


def write_section(name: str, text: str, *, path: Path = DOCUMENT) -> None:
    """Replace what stands between `<!-- name -->` and `<!-- /name -->`, or append it."""
    old = path.read_text() if path.exists() else "# Benchmarks\n"
    begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    section = f"{begin}\n{text}\n{end}"
    if begin in old:
        before, rest = old.split(begin, 1)
        path.write_text(before + section + rest.split(end, 1)[1])
    else:
        path.write_text(f"{old.rstrip()}\n\n{section}\n")


def write_json(name: str, results: Mapping[str, Any]) -> Path:
    """Under .bench/; the raw data behind a table."""
    path = RESULTS / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results, indent=1))
    return path


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [_line(head), "|---" * len(head) + "|", *(_line(row) for row in rows)]


def micros(secs: float | None) -> str:
    return "–" if secs is None else f"{secs * 1e6:.1f}"


def number(value: float | None, digits: int = 1) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def target_text(target: Mapping[str, Any]) -> str:
    return ", ".join(f"{key}={value}" for key, value in target.items())


def measured_on(target: Mapping[str, Any]) -> str:
    """The machine, the target and the commit below which a table's numbers stand."""
    return f"{this_machine()}; target `{target_text(target)}`; commit {commit()}"


def cpu_name(target: Mapping[str, Any]) -> str:
    """LLVM's name of the CPU; the target's kind where it names none."""
    return str(target.get("mcpu", target["kind"]))


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
