"""The runs of the reference kernel on a device, as JSON lines: the latest few hundred.

A line that does not read is left out: a file that was cut by a crash costs one number.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

_MOST_LINES = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryRun:
    """One run of the reference kernel, the fastest of its processes."""

    #: ISO 8601, UTC: for people.
    at: str
    device_class: str
    #: Of the kernel and of TVM, which compiled it: times of another one say nothing.
    kernel: str
    reference_secs: float
    #: A run of a device that drifted is kept, but nothing is judged by it.
    well: bool = True


def read_history(path: Path) -> list[HistoryRun]:
    """Oldest first; empty where there is none."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return []
    return [run for run in map(_read, lines) if run is not None]


def append_history(path: Path, run: HistoryRun) -> None:
    """Bounded: the file is written anew, and put in place at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    kept = [*read_history(path), run][-_MOST_LINES:]
    staged = path.with_suffix(".new")
    staged.write_text("".join(json.dumps(asdict(item)) + "\n" for item in kept), encoding="utf-8")
    staged.replace(path)


def well_secs(runs: Iterable[HistoryRun], *, device_class: str, kernel: str) -> list[float]:
    """What a new run on this device is judged by, oldest first."""
    return [
        run.reference_secs
        for run in runs
        if run.well and run.device_class == device_class and run.kernel == kernel
    ]


def _read(line: str) -> HistoryRun | None:
    try:
        run = HistoryRun(**json.loads(line))
    except (ValueError, TypeError):
        return None
    secs = run.reference_secs
    return run if isinstance(secs, int | float) and secs > 0 else None
