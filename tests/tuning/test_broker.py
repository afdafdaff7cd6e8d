"""A broker that is away costs seconds, never the loop; one that comes back is used again."""

import threading
import time
from pathlib import Path

import pytest
from sqlalchemy import Engine, update

from db.session import transaction
from db.states import Outcome, TrialState
from db.tables import TrialRow
from services.tuning.broker import ResultsConsumer, make_sending_app, send_chunk
from services.tuning.errors import BrokerError
from tests.servers import run_valkey
from tests.tuning.rows import add_job, add_search, add_target, add_trials, states
from workers.app import make_app, publish_result
from workers.messages import MeasureChunk, MeasurePolicy, TrialOutcome

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
    app = make_sending_app(f"redis+socket://{tmp_path / 'none.sock'}", timeout_secs=0.5)
    began = time.monotonic()
    with pytest.raises(BrokerError, match="chunk c was not sent"):
        send_chunk(app, CHUNK, target_key="0" * 64)
    assert time.monotonic() - began < 3.0


def test_a_refused_connection_is_given_up_on_soon() -> None:
    app = make_sending_app("redis://127.0.0.1:1/0", timeout_secs=0.5)
    began = time.monotonic()
    with pytest.raises(BrokerError):
        send_chunk(app, CHUNK, target_key="0" * 64)
    assert time.monotonic() - began < 3.0


def test_results_are_recorded_after_the_broker_was_away(engine: Engine) -> None:
    search_id = add_search(engine, add_target(engine))
    [task_id] = add_job(engine, [search_id], state="running")
    [trial_id] = add_trials(engine, search_id, task_id, 1)
    with transaction(engine) as session:
        session.execute(update(TrialRow).values(state=TrialState.DISPATCHED, attempt=1))
    changed = threading.Event()
    with run_valkey() as url:
        consumer = ResultsConsumer(
            app=make_sending_app(url, timeout_secs=0.5), engine=engine, on_change=lambda _jobs: changed.set()
        )
        consumer.start()
        result = TrialOutcome(
            trial_id=trial_id, attempt=1, worker_id="w", outcome=Outcome.OK, run_secs=(0.001,)
        )
        publish_result(make_app(url), result)
        assert changed.wait(10)
    time.sleep(1.0)
    assert consumer.is_alive()
    consumer.stop()
    consumer.join(10)
    assert not consumer.is_alive()
    assert states(engine) == {"done": 1}
