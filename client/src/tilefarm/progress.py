"""A job's progress as one line: rewritten on a terminal, a plain line now and then elsewhere.

It reads job views and asks nothing. Numbers that are not known yet are left out.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any, TextIO

#: Between two lines where nobody sees them rewritten.
_LINE_SECS = 5.0
_BAR_WIDTH = 20
#: Outcomes of candidates that ran properly; a cut-off one was stopped because it was slow.
_RAN = frozenset({"ok", "cut_off"})


def latency_text(secs: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        # What rounds to a thousand of one unit is one of the next.
        if secs >= 0.9995 * scale:
            return f"{figures(secs / scale)} {unit}"
    return f"{figures(secs * 1e9)} ns"


def figures(number: float) -> str:
    """Three of them, or a whole number; never an exponent for what is large."""
    return f"{number:.3g}" if number < 999.5 else f"{number:.0f}"


def duration_text(secs: float) -> str:
    if round(secs) < 60:
        return f"{secs:.0f} s"
    minutes, rest = divmod(round(secs), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def failures(view: Mapping[str, Any]) -> int:
    """Candidates that did not build, run, or agree with the reference, and trials the farm lost."""
    outcomes = view.get("outcomes") or {}
    return sum(count for name, count in outcomes.items() if name not in _RAN)


def gflops(view: Mapping[str, Any]) -> float | None:
    """Of the whole job: weighted operations over weighted latency."""
    secs, tasks = view.get("weighted_latency_secs"), view.get("tasks") or []
    flops = sum((task.get("flops") or 0) * (task.get("weight") or 1) for task in tasks)
    return flops / secs / 1e9 if secs and flops else None


def trials_ended(view: Mapping[str, Any]) -> int:
    trials = view.get("trials") or {}
    return sum(trials.get(name, 0) for name in ("done", "failed", "cancelled"))


def describe(view: Mapping[str, Any]) -> str:
    """`running 32/96 trials, best 12.3 µs, 5.1x untuned, 340 GFLOP/s, 2 failed, 12 s left`."""
    parts = [f"{view.get('state')} {trials_ended(view)}/{view.get('max_trials')} trials"]
    if view.get("weighted_latency_secs"):
        parts.append(f"best {latency_text(view['weighted_latency_secs'])}")
    if view.get("speedup"):
        parts.append(f"{view['speedup']:.1f}x untuned")
    speed = gflops(view)
    if speed:
        parts.append(f"{figures(speed)} GFLOP/s")
    parts.append(f"{failures(view)} failed")
    if view.get("eta_secs") is not None and view.get("state") in ("queued", "running"):
        parts.append(f"{duration_text(view['eta_secs'])} left")
    if view.get("error"):
        parts.append(str(view["error"]))
    return ", ".join(parts)


def bar(view: Mapping[str, Any]) -> str:
    share = min(1.0, trials_ended(view) / max(1, view.get("max_trials") or 1))
    filled = round(share * _BAR_WIDTH)
    return "[" + "#" * filled + "." * (_BAR_WIDTH - filled) + "]"


class ProgressLine:
    """Writes to `stream`; `end` leaves the cursor on a fresh line."""

    def __init__(self, stream: TextIO, *, label: str = "", now: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._label = f"{label}  " if label else ""
        self._now = now
        self._rewrites = stream.isatty()
        self._written_at = float("-inf")
        self._last = ""

    def show(self, view: Mapping[str, Any], *, final: bool = False) -> None:
        text = self._label + describe(view)
        if self._rewrites:
            self._stream.write(f"\r\x1b[K{self._label}{bar(view)} {describe(view)}")
        elif text != self._last and (final or self._now() - self._written_at >= _LINE_SECS):
            self._stream.write(text + "\n")
            self._written_at = self._now()
            self._last = text
        self._stream.flush()

    def end(self) -> None:
        if self._rewrites:
            self._stream.write("\n")
            self._stream.flush()
