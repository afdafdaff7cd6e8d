"""Celery's consumer, reconnecting at a steady pace.

Celery waits two seconds longer after each failure, up to thirty: a device would stay idle long after its
broker is back. Only the waiting is changed.
"""

from typing import Any

import structlog
from celery.worker.consumer import Consumer
from celery.worker.state import maybe_shutdown

_log = structlog.get_logger(__name__)
_RETRY_SECS = 1.0


class SteadyConsumer(Consumer):
    def ensure_connected(self, conn: Any) -> Any:
        def report(error: Exception, retry_secs: float) -> None:
            _log.warning("broker_away", reason=str(error), retry_secs=retry_secs)

        connected = conn.ensure_connection(
            report,
            None,
            interval_start=_RETRY_SECS,
            interval_step=0.0,
            interval_max=_RETRY_SECS,
            callback=maybe_shutdown,
        )
        self.first_connection_attempt = False
        return connected
