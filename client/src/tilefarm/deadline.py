"""A total deadline around a blocking call, name resolution and trickling answers included.

httpx bounds each read, not the whole; a compile must not wait longer than it was told. The call runs in a
daemon thread that is abandoned when its time is over: it cannot hold up the end of the process either.
"""

import threading
from collections.abc import Callable
from typing import Any, TypeVar

from tilefarm.errors import DeadlineError

_T = TypeVar("_T")


def call_within(call: Callable[[], _T], *, timeout_secs: float) -> _T:
    """What `call` returns or raises; DeadlineError when it has not ended in time."""
    answer: dict[str, Any] = {}

    def run() -> None:
        try:
            answer["value"] = call()
        except Exception as error:  # noqa: BLE001 - carried over to the caller's thread and raised there
            answer["error"] = error

    thread = threading.Thread(target=run, name="tilefarm-call", daemon=True)
    thread.start()
    thread.join(timeout_secs)
    if "error" in answer:
        raise answer["error"]
    if "value" not in answer:
        raise DeadlineError(f"no answer within {timeout_secs:g} s")
    value: _T = answer["value"]
    return value
