"""Numbers and times as people read them on a page; `–` stands for what is not known."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from markupsafe import Markup, escape

from db.lookup_traffic import MissKey

NONE = "–"
_STEPS = ((86_400, "d"), (3600, "h"), (60, "min"))
_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
#: As db/jobs.py makes them.
_JOB_ID = re.compile(r"\bjob-[a-z2-7]{16}\b")
#: Waiting is grey; build and measure are as on the fleet's timeline.
_STAGES = {
    "search": "s2",
    "start": "s5",
    "replay": "s3",
    "build": "s1",
    "load": "s7",
    "wait": "s4",
    "check": "s6",
    "measure": "s0",
    "end": "s8",
}
_OUTCOMES = {
    "ok": "ok",
    "cut_off": "cut off",
    "build_error": "build error",
    "build_timeout": "build timeout",
    "run_error": "run error",
    "run_timeout": "run timeout",
    "wrong_output": "wrong output",
    "rejected": "rejected",
    "worker_lost": "worker lost",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Where seconds went: a part of a shot, or the search."""

    name: str
    secs: float
    #: A class of style.css.
    colour: str


def latency(secs: float | None) -> str:
    """Three figures and the unit that suits them: `123 µs`."""
    if secs is None:
        return NONE
    for scale, unit in _UNITS:
        if secs >= scale:
            return f"{figures(secs / scale)} {unit}"
    return f"{figures(secs / 1e-9)} ns"


def micros(secs: float | None) -> str:
    return NONE if secs is None else figures(secs * 1e6)


def figures(number: float | None) -> str:
    """At least three figures, grouped by thousands."""
    if number is None:
        return NONE
    size = abs(number)
    decimals = 0 if size >= 100 else 1 if size >= 10 else 2
    return f"{number:,.{decimals}f}".replace(",", "\u202f")


def count(number: float | None) -> str:
    return NONE if number is None else f"{number:,.0f}".replace(",", "\u202f")


def flop(number: float | None) -> str:
    """`4.19 M`, `268 M`, `1.07 G`."""
    if not number:
        return NONE
    for scale, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= scale:
            return f"{figures(number / scale)} {prefix}"
    return figures(number)


def span(secs: float | None) -> str:
    """The two largest units: `3 min 20 s`."""
    if secs is None:
        return NONE
    left = max(0, round(secs))
    for index, (size, unit) in enumerate(_STEPS):
        if left >= size:
            whole, rest = divmod(left, size)
            next_size, next_unit = _STEPS[index + 1] if index + 1 < len(_STEPS) else (1, "s")
            part = rest // next_size
            return f"{whole} {unit}" + (f" {part} {next_unit}" if part else "")
    return f"{left} s"


def ago(secs: float | None) -> str:
    return NONE if secs is None else f"{span(secs)} ago"


def speedup(ratio: float | None) -> str:
    return NONE if ratio is None else f"{figures(ratio)}×"


def percent(part: float | None) -> str:
    if part is None:
        return NONE
    return "<1 %" if 0 < part < 0.005 else f"{100 * part:.0f} %"


def bytes_(number: float) -> str:
    """`512 MiB`, `24.0 GiB`."""
    for scale, unit in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if number >= scale:
            return f"{figures(number / scale)} {unit}"
    return f"{number:.0f} B"


def staged(stage_secs: Mapping[str, float]) -> list[Stage]:
    """Stages in the order in which they are spent; each has its colour, whatever the others are."""
    known = [name for name in _STAGES if name in stage_secs]
    names = [*known, *sorted(stage_secs.keys() - _STAGES.keys())]
    return [
        Stage(name=name.replace("_", " "), secs=stage_secs[name], colour=_STAGES.get(name, "s4"))
        for name in names
    ]


def moment(at: datetime | None) -> str:
    """UTC, for a tooltip or a header; the browser shows it in its own time zone."""
    return NONE if at is None else f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def iso(at: datetime | None) -> str:
    return "" if at is None else at.astimezone(UTC).isoformat(timespec="milliseconds")


def outcome(name: str | None) -> str:
    return NONE if name is None else _OUTCOMES.get(name, name)


def asked(key: MissKey) -> dict[str, str]:
    """What a button says of a missed workload."""
    return {"shash": key.shash, "target_key": key.target_key, "tvm_version": key.tvm_version}


def jobs_linked(text: str) -> Markup:
    """The text, escaped; the ids of jobs in it lead to their pages."""
    return Markup(_JOB_ID.sub(r'<a href="/jobs/\g<0>">\g<0></a>', str(escape(text))))  # noqa: S704 - escaped


FILTERS: dict[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (
        latency,
        micros,
        figures,
        count,
        flop,
        span,
        ago,
        speedup,
        percent,
        moment,
        iso,
        outcome,
        asked,
        jobs_linked,
        staged,
    )
} | {"bytes": bytes_}
