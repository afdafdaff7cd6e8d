"""The service with a real broker, a real search child on TVM, and a worker that draws its times."""

import json
import random
import threading
import time
from pathlib import Path

import pytest
from kombu import Connection
from sqlalchemy import Engine

from db.session import connect
from db.states import JobState, Outcome, Purpose, WorkerRole
from db.tables import JobRow, RecordRow, Row, SearchRow, TargetRow, TrialRow
from services.tuning.main import serve
from services.tuning.pulse import Pulse
from services.tuning.settings import TunerSettings
from tests.tuning.rows import add_job, add_search, add_target, add_worker, heard, read, states
from workers.app import make_app, publish_result, results_queue
from workers.messages import MeasureChunk, TrialOrder, TrialOutcome, TrialStarted
from workers.queues import work_queue

WORKER = "worker-1"
TARGET = {"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 1}


class DrawingWorker(threading.Thread):
    """Consumes the target's queue as a worker does and answers each trial with a drawn time."""

    def __init__(self, broker_url: str, engine: Engine, target_key: str) -> None:
        super().__init__(daemon=True)
        self._app = make_app(broker_url)
        self._engine = engine
        self._queue = work_queue(target_key, WorkerRole.BOTH)
        self._times = random.Random(1)
        self.stopping = threading.Event()
        self.measured: list[TrialOrder] = []

    def run(self) -> None:
        with self._app.connection_for_read() as connection:
            queue = connection.SimpleQueue(self._queue)
            while not self.stopping.is_set():
                heard(self._engine, WORKER)
                try:
                    message = queue.get(timeout=0.2)
                except queue.Empty:
                    continue
                message.ack()
                [chunk], _, _ = message.payload
                for order in MeasureChunk.from_json(chunk).trials:
                    self._measure(order)

    def _measure(self, order: TrialOrder) -> None:
        started = TrialStarted(trial_id=order.trial_id, attempt=order.attempt, worker_id=WORKER)
        outcome = TrialOutcome(
            trial_id=order.trial_id,
            attempt=order.attempt,
            worker_id=WORKER,
            outcome=Outcome.OK,
            run_secs=(self._times.uniform(0.001, 0.002),) * 3,
            incumbent_run_secs=(0.01,) if order.incumbent_trace else None,
            stage_secs={"build": 0.01},
            device_class="cpu",
            tvm_version="0.27.0",
        )
        self.measured.append(order)
        # Doubled on purpose: a result counts once.
        for result in (started, outcome, outcome):
            publish_result(self._app, result)


def _poison(broker_url: str) -> None:
    """What no worker of ours would send, before everything else in the queue."""
    with Connection(broker_url) as connection, connection.Producer() as producer:
        for body, kind in ((b"\xff\x00", "application/octet-stream"), (b"[1]", "application/json")):
            producer.publish(
                body,
                content_type=kind,
                content_encoding="binary",
                routing_key=results_queue().name,
                declare=[results_queue()],
            )


def _classroom_module() -> str:
    module = json.loads(Path("examples/mm_relu.module.json").read_text())
    return json.dumps(module)


def test_a_job_on_a_real_search_and_broker_ends_with_a_record(tmp_path: Path, valkey_url: str) -> None:
    url = f"sqlite:///{tmp_path / 'tilefarm.db'}"
    engine = connect(url)
    Row.metadata.create_all(engine)
    target_id = add_target(engine, TARGET)
    add_worker(engine, target_id, worker_id=WORKER)
    search_id = add_search(engine, target_id, module=_classroom_module(), options={"population_size": 64})
    add_job(engine, [search_id], max_trials=24)
    [target_key] = read(engine, TargetRow.key)
    _poison(valkey_url)
    worker = DrawingWorker(valkey_url, engine, target_key)
    stopping, pulse = threading.Event(), Pulse(tick_secs=0.15)
    settings = TunerSettings(
        database_url=url, broker_url=valkey_url, batch_size=8, first_batch_size=8, revision_secs=0.1
    )
    service = threading.Thread(target=serve, args=(settings,), kwargs={"stopping": stopping, "pulse": pulse})
    worker.start()
    service.start()
    try:
        deadline = time.monotonic() + 120
        while not JobState(read(engine, JobRow.state)[0]).ended:
            assert time.monotonic() < deadline, (states(engine), read(engine, SearchRow.error))
            assert service.is_alive()
            time.sleep(0.1)
    finally:
        stopping.set()
        pulse.hurry()
        service.join(30)
        worker.stopping.set()
        worker.join(10)
    assert not service.is_alive()
    assert read(engine, JobRow.state) == [JobState.SUCCEEDED], read(engine, JobRow.error)
    assert set(states(engine)) == {"done"}
    searched = read(engine, TrialRow.program_hash, TrialRow.purpose == Purpose.SEARCH)
    assert len(searched) == len(set(searched)) == 24
    assert read(engine, JobRow.trials_reserved) == [24]
    assert len(worker.measured) == sum(read(engine, TrialRow.attempt))
    assert len(read(engine, RecordRow.id)) >= 1
    assert read(engine, SearchRow.stage_secs)[0]["build"] == pytest.approx(0.01 * len(worker.measured))
    assert all(features for features in read(engine, TrialRow.features_z, TrialRow.purpose == Purpose.SEARCH))
    engine.dispose()
