"""The heartbeat thread: tells the API what is held, and obeys its answer (drop, drain, cut-off).

It lives through any absence of the API: the worker goes on measuring what it holds. It takes nothing new when
nobody has answered for so long that the farm takes it for dead: what a dead worker begins counts against its
trials.
"""

import threading
import time
from collections.abc import Callable, Mapping

import httpx
import structlog

from workers.errors import WorkerError
from workers.holding import Holding
from workers.membership import Membership
from workers.selftester import DeviceReport

_log = structlog.get_logger(__name__)
#: So many heartbeats without an answer, and no less than so long: the farm takes the worker for dead.
_SILENT_BEATS, _SILENT_SECS = 5, 3.0
_STOP_SECS = 1.0


class Heartbeat:
    """One thread, from `start` to `stop`."""

    def __init__(
        self,
        *,
        membership: Membership,
        holding: Holding,
        stage_secs: Callable[[], Mapping[str, float]],
        device_report: Callable[[], DeviceReport],
        set_draining: Callable[[bool], None],
        set_silent: Callable[[bool], None] = lambda _silent: None,
        every_secs: float,
    ) -> None:
        self._membership = membership
        self._holding = holding
        self._stage_secs = stage_secs
        self._device_report = device_report
        self._set_draining = set_draining
        self._set_silent = set_silent
        self._every_secs = every_secs
        self._draining = False
        self._silent = False
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Send no further one; who hangs with the one under way is not waited for."""
        self._stopped.set()
        self._thread.join(_STOP_SECS)

    def _run(self) -> None:
        most_secs = max(_SILENT_BEATS * self._every_secs, _SILENT_SECS)
        heard_at = time.monotonic()
        while not self._stopped.wait(self._every_secs):
            try:
                self._beat()
            except (httpx.HTTPError, httpx.InvalidURL, WorkerError, ValueError, TypeError) as error:
                _log.warning("heartbeat_failed", kind=type(error).__name__, reason=str(error))
            else:
                heard_at = time.monotonic()
            self._note_silence(time.monotonic() - heard_at > most_secs)

    def _note_silence(self, silent: bool) -> None:  # noqa: FBT001 - the callback's value
        if silent != self._silent:
            _log.warning("silence_changed", silent=silent)
            self._silent = silent
        # Each time: Celery's consumer may have been away, with the broker.
        self._set_silent(silent)

    def _beat(self) -> None:
        orders = self._membership.heartbeat(
            holding=self._holding.held(), stage_secs=self._stage_secs(), report=self._device_report()
        )
        if orders.drop:
            _log.info("attempts_dropped", attempts=orders.drop)
            self._holding.drop(orders.drop)
        self._holding.note_bests(orders.best_latency_secs)
        if orders.drain != self._draining:
            _log.info("draining_changed", draining=orders.drain)
            self._draining = orders.drain
        self._set_draining(orders.drain)
