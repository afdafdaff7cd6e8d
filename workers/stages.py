"""Inside a child: seconds by stage, and how a candidate's failure in one becomes its outcome."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from db.states import Outcome
from workers.messages import MAX_ERROR_CHARS


class Ended(Exception):  # noqa: N818 - carries an outcome, not an error
    """The candidate has its outcome."""

    def __init__(self, outcome: Outcome, error: str, run_secs: list[float] | None = None) -> None:
        super().__init__(error)
        self.outcome = outcome
        self.error = error
        self.run_secs = run_secs

    def answer(self) -> dict[str, Any]:
        """As the child's parent reads it, but for the stages."""
        return {"outcome": self.outcome, "run_secs": self.run_secs, "error": self.error}


class Stages:
    def __init__(self) -> None:
        self.secs: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str, failure: Outcome) -> Iterator[None]:
        """Count the stage's seconds; whatever it raises becomes its outcome."""
        began = time.perf_counter()
        try:
            yield
        except Ended:
            raise
        except Exception as error:  # the child-process boundary: a candidate's failure is data
            raise Ended(failure, describe(error)) from error
        finally:
            self.secs[name] = self.secs.get(name, 0.0) + time.perf_counter() - began


def describe(error: BaseException) -> str:
    """The last lines of an exception's text: TVM puts a trace of its own code before the reason."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = " | ".join(lines[-6:]) or "no message"
    return f"{type(error).__name__}: {text}"[:MAX_ERROR_CHARS]
