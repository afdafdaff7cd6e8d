"""A broker that is away costs seconds, never the loop; one that comes back is used again."""

import json
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kombu import Consumer, Queue
from sqlalchemy import Engine, update

from db.session import transaction
from db.states import Outcome, TrialState, WorkerRole
from db.tables import TrialRow
from services.tuning import broker
from services.tuning.broker import ResultsConsumer, make_tuner_app, send_chunk, take_waiting
from services.tuning.errors import BrokerError
from tests.servers import run_valkey
from tests.tuning.rows import add_job, add_search, add_target, add_trials, states
from workers.app import make_app, publish_result, results_queue
from workers.messages import MeasureChunk, MeasurePolicy, TrialOutcome
from workers.queues import RESULTS, work_queue

CHUNK = MeasureChunk(
    chunk_id="c",
    search_id=1,
    target={"kind": "llvm"},
    module="",
    module_sha256="0" * 64,
    policy=MeasurePolicy(),
    trials=(),
)


def test_a_broker_that_is_away_is_given_up_on_soon(tmp_path: Path) -> None:
    app = make_tuner_app(f"redis+socket://{tmp_path / 'none.sock'}", timeout_secs=0.5, redeliver_secs=30.0)
    began = time.monotonic()
    with pytest.raises(BrokerError, match="chunk c was not sent"):
        send_chunk(app, CHUNK, target_key="0" * 64, role=WorkerRole.BOTH)
    assert time.monotonic() - began < 3.0


def test_a_refused_connection_is_given_up_on_soon() -> None:
    app = make_tuner_app("redis://127.0.0.1:1/0", timeout_secs=0.5, redeliver_secs=30.0)
    began = time.monotonic()
    with pytest.raises(BrokerError):
        send_chunk(app, CHUNK, target_key="0" * 64, role=WorkerRole.BOTH)
    assert time.monotonic() - began < 3.0


def test_results_are_recorded_and_a_broker_that_goes_away_ends_nothing(engine: Engine) -> None:
    trial_id = _dispatched_trial(engine)
    with run_valkey() as url:
        consumer, changed = _consumer(url, engine)
        publish_result(make_app(url), _ok(trial_id))
        assert changed.wait(10)
    time.sleep(1.0)
    assert consumer.is_alive()
    _end(consumer)
    assert states(engine) == {"done": 1}


@pytest.fixture
def own_valkey_url() -> Iterator[str]:
    """A broker that holds nothing of another test."""
    with run_valkey() as url:
        yield url


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_only_results_are_delivered_again_when_a_replica_was_killed(
    engine: Engine, own_valkey_url: str
) -> None:
    """Neither acknowledges: the chunk is the worker's, the result is the next replica's."""
    trial_id = _dispatched_trial(engine)
    app = make_tuner_app(own_valkey_url, timeout_secs=0.5, redeliver_secs=1.0)
    send_chunk(app, CHUNK, target_key="5" * 64, role=WorkerRole.BOTH)
    publish_result(make_app(own_valkey_url), _ok(trial_id))
    queue = Queue(work_queue("5" * 64, WorkerRole.BOTH), durable=True)
    chunks: list[object] = []
    results: list[object] = []
    with (
        make_app(own_valkey_url).connection_for_read() as worker,
        app.connection_for_read() as silent,
        Consumer(worker, queues=[queue], on_message=chunks.append, prefetch_count=1),
        Consumer(silent, queues=[results_queue()], on_message=results.append, prefetch_count=8),
    ):
        worker.drain_events(timeout=5)
        silent.drain_events(timeout=5)
        consumer, changed = _consumer(own_valkey_url, engine, redeliver_secs=1.0)
        assert changed.wait(20)
        _end(consumer)
        assert (len(chunks), len(results)) == (1, 1)
        assert worker.default_channel.client.llen(queue.name) == 0
    assert states(engine) == {"done": 1}


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_what_a_killed_replica_had_taken_at_once_is_delivered_again(
    engine: Engine, own_valkey_url: str
) -> None:
    trial_ids = _dispatched_trials(engine, 5)
    for trial_id in trial_ids:
        publish_result(make_app(own_valkey_url), _ok(trial_id))
    app = make_tuner_app(own_valkey_url, timeout_secs=0.5, redeliver_secs=1.0)
    with app.connection_for_read() as killed:
        taken = take_waiting(killed.default_channel)
    assert [json.loads(message.body)["trial_id"] for message in taken] == trial_ids
    consumer, changed = _consumer(own_valkey_url, engine, redeliver_secs=1.0)
    deadline = time.monotonic() + 20
    while states(engine) != {"done": 5}:
        assert time.monotonic() < deadline
        assert changed.wait(20)
        changed.clear()
    _end(consumer)


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_what_waits_is_recorded_and_nothing_of_it_stays_in_the_broker(
    engine: Engine, own_valkey_url: str
) -> None:
    app = make_app(own_valkey_url)
    trial_ids = _dispatched_trials(engine, 40)
    with app.connection_for_read() as connection:
        client = connection.default_channel.client
        client.lpush(RESULTS, "no JSON", "{}")
        for trial_id in trial_ids[:20]:
            publish_result(app, _ok(trial_id))
        client.lpush(RESULTS, "no JSON", "{}", "[]")
        consumer, _ = _consumer(own_valkey_url, engine)
        for trial_id in trial_ids[20:]:
            publish_result(app, _ok(trial_id))
        deadline = time.monotonic() + 20
        while states(engine) != {"done": 40} or client.exists("tilefarm.results.unacked", RESULTS):
            assert time.monotonic() < deadline, states(engine)
            time.sleep(0.05)
    assert consumer.is_alive()
    _end(consumer)


def _envelope(**values: Any) -> str:
    """What kombu puts around a body."""
    properties = {
        "delivery_info": {"exchange": "", "routing_key": RESULTS},
        "body_encoding": "base64",
        "delivery_tag": uuid.uuid4().hex,
    }
    headers = values.pop("headers", {})
    return json.dumps(
        {"body": "e30=", "headers": headers, "properties": properties | values.pop("properties", {})} | values
    )


#: Nothing of this is a result, and each is unreadable in a way of its own.
POISON = (
    "no JSON",
    "[]",
    "5",
    "[" * 100_000,
    "{}",
    '{"properties": []}',
    _envelope(),
    _envelope(body=None),
    _envelope(body="not base64"),
    _envelope(headers=5),
    _envelope(headers={"compression": "of another kind"}),
    _envelope(headers={"compression": "application/x-gzip"}),
    _envelope(properties={"body_encoding": "of another kind"}),
    _envelope(properties={"delivery_info": {}}),
    _envelope(properties={"delivery_tag": None}),
    _envelope(properties={"delivery_tag": [1]}),
)


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_no_message_stops_those_behind_it_whatever_it_holds(engine: Engine, own_valkey_url: str) -> None:
    """Each comes alone, so that kombu itself takes it, and among others, so that it is taken with them."""
    app = make_app(own_valkey_url)
    trial_ids = _dispatched_trials(engine, len(POISON) + 2)
    with app.connection_for_read() as connection:
        client = connection.default_channel.client
        publish_result(app, _ok(trial_ids[0]))
        client.lpush(RESULTS, *POISON)
        consumer, _ = _consumer(own_valkey_url, engine)
        _until_done(engine, 1)
        for count, (poison, trial_id) in enumerate(zip(POISON, trial_ids[1:], strict=False), start=2):
            client.lpush(RESULTS, poison)
            while client.exists(RESULTS):
                assert consumer.is_alive(), poison[:200]
                time.sleep(0.01)
            publish_result(app, _ok(trial_id))
            _until_done(engine, count)
        publish_result(app, _ok(trial_ids[-1]))
        _until_done(engine, len(trial_ids))
        deadline = time.monotonic() + 5
        while client.exists("tilefarm.results.unacked", RESULTS):
            assert time.monotonic() < deadline
            time.sleep(0.01)
    assert consumer.is_alive()
    _end(consumer)


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_broker_that_was_well_for_a_while_is_tried_again_at_once(
    monkeypatch: pytest.MonkeyPatch, engine: Engine, valkey_url: str
) -> None:
    monkeypatch.setattr(broker, "_RETRY_SECS", 0.01)
    monkeypatch.setattr(broker, "_RETRY_MAX_SECS", 0.04)
    consumer = ResultsConsumer(
        app=make_tuner_app(valkey_url, timeout_secs=0.5, redeliver_secs=30.0),
        engine=engine,
        on_change=lambda _jobs, _ended: None,
    )
    pauses: list[float] = []
    well_secs = iter((0.0, 0.0, 0.0, 0.0, 0.1))

    def consume(_connection: object) -> None:
        try:
            time.sleep(next(well_secs))
        except StopIteration:
            consumer.stop()
        else:
            raise OSError("gone")

    monkeypatch.setattr(consumer, "_consume", consume)
    monkeypatch.setattr(consumer._stopping, "wait", pauses.append)
    consumer.run()
    assert pauses == [0.01, 0.02, 0.04, 0.04, 0.01]


def _until_done(engine: Engine, count: int) -> None:
    deadline = time.monotonic() + 5
    while states(engine).get("done", 0) < count:
        assert time.monotonic() < deadline, states(engine)
        time.sleep(0.01)


def _consumer(
    url: str, engine: Engine, *, redeliver_secs: float = 30.0
) -> tuple[ResultsConsumer, threading.Event]:
    """A consumer that runs, and what it sets when it has recorded something."""
    changed = threading.Event()
    consumer = ResultsConsumer(
        app=make_tuner_app(url, timeout_secs=0.5, redeliver_secs=redeliver_secs),
        engine=engine,
        on_change=lambda _jobs, _ended: changed.set(),
    )
    consumer.start()
    return consumer, changed


def _end(consumer: ResultsConsumer) -> None:
    consumer.stop()
    consumer.join(10)
    assert not consumer.is_alive()


def _dispatched_trial(engine: Engine) -> int:
    [trial_id] = _dispatched_trials(engine, 1)
    return trial_id


def _dispatched_trials(engine: Engine, count: int) -> list[int]:
    search_id = add_search(engine, add_target(engine))
    [task_id] = add_job(engine, [search_id], state="running")
    trial_ids = add_trials(engine, search_id, task_id, count)
    with transaction(engine) as session:
        session.execute(update(TrialRow).values(state=TrialState.DISPATCHED, attempt=1))
    return trial_ids


def _ok(trial_id: int) -> TrialOutcome:
    return TrialOutcome(trial_id=trial_id, attempt=1, worker_id="w", outcome=Outcome.OK, run_secs=(0.001,))
