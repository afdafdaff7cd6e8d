"""Logs of every role: JSON lines, a static event with identifiers as fields; set up once for each process."""

import logging
import threading
from typing import TextIO

import structlog


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
    threading.excepthook = _note_death


def _note_death(death: threading.ExceptHookArgs) -> None:
    """Of a thread that ended by an exception; what follows is its role's."""
    if death.exc_value is not None and not isinstance(death.exc_value, SystemExit):
        name = "unknown" if death.thread is None else death.thread.name
        structlog.get_logger(__name__).error("thread_died", thread=name, exc_info=death.exc_value)
