"""Notices that the worker is alive but deaf: it sends itself small messages through the broker, and listens.

After a reconnect Celery's consumer has been seen to live on without hearing anything. A message that cannot
be sent says that the broker is away, and nothing of this worker; one that was sent, and is not heard although
the worker is idle, counts. It restarts nothing itself.
"""

import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import structlog
from celery import Celery
from kombu.exceptions import KombuError
from redis.exceptions import RedisError

from workers.queues import CANARY_STEP

_log = structlog.get_logger(__name__)
#: One unheard message may be lost in a broker that was emptied.
_MISSES = 2
_LOOK_SHARE = 0.1
_CONNECT_SECS = 3.0


@dataclass(slots=True, kw_only=True)
class Hearing:
    """What was sent, and whether it arrived. Pure: times are given, in seconds of any clock."""

    patience_secs: float
    misses: int = 0
    _sent: tuple[str, float] | None = None

    @property
    def waits(self) -> bool:
        """Something was sent and is not yet heard."""
        return self._sent is not None

    @property
    def deaf(self) -> bool:
        return self.misses >= _MISSES

    def sent(self, message: str, *, at: float) -> None:
        self._sent = (message, at)

    def heard(self, message: str) -> None:
        """What somebody sent before, under this worker's name, proves nothing."""
        if self._sent is not None and message == self._sent[0]:
            self._sent, self.misses = None, 0

    def look(self, *, now: float, idle_secs: float) -> None:
        """Count what should have been heard: a worker that is busy hears later."""
        if self._sent is not None and min(now - self._sent[1], idle_secs) > self.patience_secs:
            self._sent = None
            self.misses += 1


@dataclass(slots=True, kw_only=True)
class Canary:
    """One thread, from `start` to `stop`; calls `on_deaf` once."""

    app: Celery
    queue: str
    #: 0: it does nothing.
    every_secs: float
    #: For how long the worker has had no chunk.
    idle_secs: Callable[[], float]
    on_deaf: Callable[[], None]
    #: Whether the broker did not take the latest message.
    broker_away: bool = False
    _hearing: Hearing = field(init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _stopped: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._hearing = Hearing(patience_secs=self.every_secs)

    def start(self) -> None:
        if self.every_secs > 0:
            threading.Thread(target=self._run, name="canary", daemon=True).start()

    def stop(self) -> None:
        self._stopped.set()

    def hear(self, message: str) -> None:
        """The step: called by whatever thread consumes."""
        with self._lock:
            self._hearing.heard(message)

    def _run(self) -> None:
        next_at = time.monotonic()
        while not self._stopped.wait(self.every_secs * _LOOK_SHARE):
            if not self._hearing.waits and time.monotonic() >= next_at:
                next_at = time.monotonic() + self.every_secs
                self._send()
            with self._lock:
                self._hearing.look(now=time.monotonic(), idle_secs=self.idle_secs())
            if self._hearing.deaf:
                _log.error("worker_deaf", queue=self.queue, misses=self._hearing.misses)
                self.on_deaf()
                return

    def _send(self) -> None:
        """By a connection of its own: the others may be the very ones that are cut."""
        message = secrets.token_hex(8)
        with self._lock:
            self._hearing.sent(message, at=time.monotonic())
        try:
            options = self.app.conf.broker_transport_options | {
                "socket_timeout": _CONNECT_SECS,
                "socket_connect_timeout": _CONNECT_SECS,
            }
            with self.app.connection_for_write(transport_options=options) as connection:
                self.app.send_task(
                    CANARY_STEP,
                    args=[message],
                    queue=self.queue,
                    connection=connection,
                    retry=False,
                    ignore_result=True,
                )
            self.broker_away = False
        except (KombuError, RedisError, OSError) as error:
            _log.warning("canary_not_sent", reason=str(error))
            self.broker_away = True
            with self._lock:
                self._hearing.heard(message)
