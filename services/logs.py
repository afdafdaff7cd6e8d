"""Logs of every role: JSON lines, a static event with identifiers as fields; set up once for each process.

What does not come from us becomes such lines too: libraries' log records, warnings, and exceptions that
nobody caught. What the interpreter or native code writes when it crashes is not in our hands.
"""

import logging
import sys
import threading
from types import TracebackType
from typing import TextIO

import structlog

_LEVELS = (logging.ERROR, logging.WARNING, logging.INFO)


def configure(stream: TextIO | None = None) -> None:
    """Render every structlog event as one line of JSON on `stream` (standard output by default)."""
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.WriteLoggerFactory(file=stream),
        cache_logger_on_first_use=True,
    )
    logging.root.handlers = [_Libraries()]
    logging.root.setLevel(logging.WARNING)
    logging.captureWarnings(capture=True)
    threading.excepthook = _note_death
    sys.unraisablehook = _note_unraisable
    if stream is None:
        # Whose log is its own output ends in it; who has a terminal beside its log tells a person there.
        sys.excepthook = _note_end


class _Libraries(logging.Handler):
    """What a library logs, under one event: its words are a field."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            text = record.getMessage()
        except (TypeError, ValueError, KeyError):
            text = f"{record.msg} {record.args}"
        level = next((level for level in _LEVELS if record.levelno >= level), logging.INFO)
        structlog.get_logger(__name__).log(
            level,
            "library_said",
            library=record.name,
            text=text.strip(),
            **({"exc_info": record.exc_info} if record.exc_info else {}),
        )


def _note_death(death: threading.ExceptHookArgs) -> None:
    """Of a thread that ended by an exception; what follows is its role's."""
    if death.exc_value is not None and not isinstance(death.exc_value, SystemExit):
        name = "unknown" if death.thread is None else death.thread.name
        structlog.get_logger(__name__).error("thread_died", thread=name, exc_info=death.exc_value)


def _note_end(_kind: type[BaseException], error: BaseException, _traceback: TracebackType | None) -> None:
    """Of the process, by an exception."""
    structlog.get_logger(__name__).error("process_died", exc_info=error)


def _note_unraisable(found: "sys.UnraisableHookArgs") -> None:
    """Of what nobody could be told otherwise: an exception in a destructor."""
    structlog.get_logger(__name__).error(
        "exception_ignored", where=repr(found.object)[:500], exc_info=found.exc_value
    )
