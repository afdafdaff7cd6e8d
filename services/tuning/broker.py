"""The broker's two ends: chunks out, results in. A loss is rung again; a double changes nothing.

Connections are tried for a short time only, so that a broker that is down never holds the loop up.
"""

import json
import threading
import time
from collections.abc import Callable, Collection, Sequence
from typing import Any

import structlog
from celery import Celery
from kombu import Connection, Consumer
from kombu.exceptions import KombuError
from kombu.transport import virtual
from redis.exceptions import RedisError
from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError, OperationalError

from db.states import WorkerRole
from services.tuning.errors import BrokerError
from services.tuning.record import read_result, record
from services.tuning.stages import Spent, timed, untold
from workers.app import make_app, results_queue
from workers.messages import MeasureChunk, MessageError, Result, TrialStarted
from workers.queues import RESULTS, step_of, work_queue

_log = structlog.get_logger(__name__)

#: What a broker that is down, or away, raises through kombu.
BROKER_ERRORS = (KombuError, RedisError, OSError)
#: What a message raises that no Celery sent, before kombu has noted it.
_UNREADABLE = (ValueError, KeyError, TypeError, AttributeError, RecursionError)
_DRAIN_SECS = 0.5
#: Of the lock under which one replica looks for results to deliver again.
_SWEEP_LOCK_SECS = 10
_BATCH = 128
#: Batches begin no closer to each other: a transaction costs as much as the writing of ten results.
_GATHER_SECS = 0.05
_RETRY_SECS = 0.5
_RETRY_MAX_SECS = 5.0


def make_tuner_app(broker_url: str, *, timeout_secs: float, redeliver_secs: float) -> Celery:
    """A Celery app whose connections give up soon; kombu's own default is to try for ever.

    Results that a killed replica had taken are delivered again after `redeliver_secs`. They are remembered
    under keys of their own: kombu's sweep hands back all that is older than the sweeper's time-out, whatever
    its queue, and a chunk that a worker has taken must not come back with them.
    """
    app = make_app(broker_url)
    app.conf.broker_connection_timeout = timeout_secs
    app.conf.broker_transport_options = app.conf.broker_transport_options | {
        "socket_connect_timeout": timeout_secs,
        "socket_timeout": timeout_secs + _DRAIN_SECS,
        "visibility_timeout": redeliver_secs,
        "unacked_key": "tilefarm.results.unacked",
        "unacked_index_key": "tilefarm.results.unacked_index",
        "unacked_mutex_key": "tilefarm.results.unacked_mutex",
        "unacked_mutex_expire": _SWEEP_LOCK_SECS,
        "max_retries": 1,
        "interval_start": 0.0,
        "interval_step": 0.1,
        "interval_max": 0.1,
    }
    return app


def send_chunk(app: Celery, chunk: MeasureChunk, *, target_key: str, role: WorkerRole) -> None:
    """Ring for a committed chunk, once; raises BrokerError where the broker does not take it."""
    try:
        app.send_task(
            step_of(role),
            args=[chunk.as_json()],
            queue=work_queue(target_key, role),
            task_id=chunk.chunk_id,
            retry=False,
            ignore_result=True,
        )
    except BROKER_ERRORS as error:
        raise BrokerError(f"chunk {chunk.chunk_id} was not sent: {error}") from error


class ResultsConsumer(threading.Thread):
    """Takes results off their queue, records them, acknowledges them after the commit."""

    def __init__(
        self,
        *,
        app: Celery,
        engine: Engine,
        on_change: Callable[[Collection[str], int], None],
        spent: Spent = untold,
    ) -> None:
        """`on_change` is told the jobs in which something changed, and how many attempts ended."""
        super().__init__(name="results", daemon=True)
        self._app = app
        self._engine = engine
        self._on_change = on_change
        self._spent = spent
        self._stopping = threading.Event()
        #: Read by any thread.
        self.broker_away = False
        self._arrived: list[Any] = []
        #: In time.monotonic(): when the last batch was recorded.
        self._began_at = 0.0

    def stop(self) -> None:
        """Ask it to end after the batch in hand; what is not acknowledged is delivered again."""
        self._stopping.set()

    def run(self) -> None:
        pause_secs = _RETRY_SECS
        while not self._stopping.is_set():
            began_at = time.monotonic()
            try:
                with self._app.connection_for_read() as connection:
                    self._consume(connection)
            except BrokerError:
                return
            except BROKER_ERRORS as error:
                if time.monotonic() - began_at > _RETRY_MAX_SECS:
                    pause_secs = _RETRY_SECS
                self.broker_away = True
                _log.warning("broker_away", reason=str(error), retry_secs=pause_secs)
                self._stopping.wait(pause_secs)
                pause_secs = min(2 * pause_secs, _RETRY_MAX_SECS)

    def _consume(self, connection: Connection) -> None:
        self._arrived.clear()
        queue = results_queue()
        with Consumer(
            connection,
            queues=[queue],
            on_message=self._arrived.append,
            on_decode_error=_refuse,
            prefetch_count=1,
        ) as consumer:
            while not self._stopping.is_set():
                self._drain(connection, consumer.channel)
                self.broker_away = False
                if self._arrived:
                    self._record_arrived()

    def _drain(self, connection: Connection, channel: Any) -> None:
        """Wait for a message; then take what is there when the next batch is due."""
        try:
            connection.drain_events(timeout=_DRAIN_SECS)
        except TimeoutError:
            return
        except _UNREADABLE as error:
            _log.error("poison_result", reason=repr(error))
        self._stopping.wait(max(0.0, self._began_at + _GATHER_SECS - time.monotonic()))
        self._arrived += take_waiting(channel)

    def _record_arrived(self) -> None:
        self._began_at = time.monotonic()
        with timed(self._spent, "record"):
            readable = [result for message in self._arrived if (result := _read(message)) is not None]
            self._write(readable)
            acknowledge(self._arrived)
        self._arrived.clear()

    def _write(self, results: list[Result]) -> None:
        """Until the database has taken them; one that no row takes must not keep the others waiting."""
        pause_secs = _RETRY_SECS
        while results:
            try:
                self._on_change(record(self._engine, results), sum(map(_ends, results)))
            except OperationalError as error:
                _log.warning("database_away", reason=str(error.orig), retry_secs=pause_secs)
                if self._stopping.wait(pause_secs):
                    raise BrokerError("stopping: results wait on the queue") from error
                pause_secs = min(2 * pause_secs, _RETRY_MAX_SECS)
            except DBAPIError as error:
                if len(results) > 1:
                    for result in results:
                        self._write([result])
                else:
                    _log.error("result_refused", trial_id=results[0].trial_id, reason=str(error.orig))
                return
            else:
                return


def take_waiting(channel: Any) -> list[Any]:
    """Messages that are there already, in two round trips; by kombu each of them would take two.

    As with kombu they are taken off the list, then noted as unacknowledged.
    """
    taken: dict[str, Any] = {}
    with channel.conn_or_acquire() as client:
        for raw in client.rpop(RESULTS, _BATCH) or ():
            try:
                message = _decoded(channel, raw)
                taken[message.delivery_tag] = (message, json.dumps([message.serializable(), "", RESULTS]))
            except _UNREADABLE as error:
                _log.error("poison_result", reason=repr(error), body=str(raw)[:500])
        if taken:
            with client.pipeline() as pipe:
                pipe.zadd(channel.unacked_index_key, dict.fromkeys(taken, time.time()))
                pipe.hset(channel.unacked_key, mapping={tag: text for tag, (_, text) in taken.items()})
                pipe.execute()
    return [message for message, _ in taken.values()]


def _decoded(channel: Any, raw: bytes) -> Any:
    """A message whose body kombu could decode, and that can be acknowledged; else one of _UNREADABLE."""
    message = channel.message_to_python(json.loads(raw))
    if message.errors or not isinstance(message.delivery_tag, str):
        raise ValueError("its body does not decode, or it has no tag")
    return message


def _refuse(message: Any, error: Exception) -> None:
    """Kombu has noted it and cannot decode it; as long as it is not acknowledged, kombu takes no other."""
    _log.error("poison_result", reason=repr(error))
    message.ack()


def acknowledge(messages: Sequence[Any]) -> None:
    """All in one round trip."""
    channel = messages[0].channel
    tags = [message.delivery_tag for message in messages]
    with channel.conn_or_acquire() as client, client.pipeline() as pipe:
        pipe.zrem(channel.unacked_index_key, *tags).hdel(channel.unacked_key, *tags).execute()
    for tag in tags:
        virtual.QoS.ack(channel.qos, tag)


def _ends(result: Result) -> bool:
    return not isinstance(result, TrialStarted)


def _read(message: Any) -> Result | None:
    try:
        return read_result(message.body)
    except MessageError as error:
        _log.error("poison_result", reason=str(error), body=str(message.body)[:500])
        return None
