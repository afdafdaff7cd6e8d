"""The Celery app and the `results` queue: how work reaches a worker and outcomes leave it.

JSON only, no result backend, early acknowledgement: a chunk that is lost is rung again by the reconciler,
which is the only retry. Made by the tuner service to send, by the worker to receive.
"""

from collections.abc import Callable
from typing import Any

from celery import Celery
from kombu import Exchange, Queue
from kombu.exceptions import OperationalError

from workers.messages import Result
from workers.queues import RESULTS

#: Only matters for messages in flight when a worker dies; chunks are acknowledged at once.
_VISIBILITY_TIMEOUT_SECS = 3600
_RETRY_EVERY_SECS = 2.0
_OWN_QUEUE_SECS = 3600.0
#: Of an answer of the broker: a connection may be dead although nobody has ended it.
_ANSWER_SECS = 10.0


def make_app(broker_url: str) -> Celery:
    app = Celery("tilefarm", broker=broker_url, set_as_current=False)
    app.conf.update(
        accept_content=["json"],
        task_serializer="json",
        result_serializer="json",
        task_ignore_result=True,
        task_acks_late=False,
        worker_prefetch_multiplier=1,
        worker_enable_remote_control=False,
        worker_send_task_events=False,
        worker_hijack_root_logger=False,
        worker_redirect_stdouts=False,
        # Both matter only with late acknowledgement; so set, they neither warn nor slow a reconnect.
        worker_cancel_long_running_tasks_on_connection_loss=True,
        worker_enable_prefetch_count_reduction=False,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        broker_transport_options={
            "visibility_timeout": _VISIBILITY_TIMEOUT_SECS,
            "socket_timeout": _ANSWER_SECS,
            "socket_keepalive": True,
            "health_check_interval": 10,
        },
    )
    return app


def results_queue() -> Queue:
    """Durable, reached through the default exchange: it needs no binding that a broker could lose."""
    return Queue(RESULTS, durable=True)


def own_queue(name: str) -> Queue:
    """On which one worker hears itself: the broker forgets it when nobody has listened for an hour.

    A pod has another name each time. No chunk takes so long, behind which the worker hears nothing.
    """
    return Queue(name, Exchange(name), routing_key=name, expires=_OWN_QUEUE_SECS)


def publish_result(
    app: Celery,
    obj: Result,
    *,
    timeout_secs: float = 120.0,
    given_up: Callable[[], bool] = lambda: False,
) -> None:
    """Put a result on the `results` queue; safe from any thread.

    While the broker is away it is tried again, for `timeout_secs` or until it is given up; then
    kombu.exceptions.OperationalError is raised, and the result is lost: the reconciler rings for it again.
    """

    def not_sent(error: Exception, _retry_secs: float) -> None:
        if given_up():
            raise OperationalError(f"given up: {error}") from error

    policy: dict[str, Any] = {
        "errback": not_sent,
        "max_retries": max(1, int(timeout_secs / _RETRY_EVERY_SECS)),
        "interval_start": 0.1,
        "interval_step": 0.5,
        "interval_max": _RETRY_EVERY_SECS,
    }
    with app.producer_pool.acquire(block=True) as producer:
        producer.publish(
            obj.as_json(),
            serializer="json",
            exchange="",
            routing_key=RESULTS,
            declare=[results_queue()],
            delivery_mode="persistent",
            retry=True,
            retry_policy=policy,
        )
