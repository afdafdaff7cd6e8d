"""The process waits for what others bring, and ends where a thread of it did: it is started again, whole."""

import threading

import pytest
from sqlalchemy import Engine

from db.migrate import upgrade
from db.session import connect
from services.tuning import main
from services.tuning.errors import BrokerError
from services.tuning.metrics import TunerMetrics
from services.tuning.pulse import Pulse
from services.tuning.settings import TunerSettings
from tests.tuning.farm import Farm


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_service_that_takes_no_results_any_more_ends(engine: Engine) -> None:
    ended = threading.Thread(target=lambda: None)
    ended.start()
    ended.join()
    with Farm(engine) as farm, pytest.raises(BrokerError, match="results"):
        main._loop(
            farm.tuner,
            farm.settings,
            TunerMetrics(leases=dict, stuck_secs=60.0),
            stopping=threading.Event(),
            pulse=Pulse(tick_secs=0.01),
            consumer=ended,
        )


def test_a_service_waits_for_the_schema_of_its_release(empty_database_url: str) -> None:
    settings = TunerSettings(
        database_url=empty_database_url, broker_url="redis://127.0.0.1:1", outage_secs=0.02
    )
    engine, stopping = connect(empty_database_url), threading.Event()
    metrics = TunerMetrics(leases=dict, stuck_secs=60.0)
    waiting = threading.Thread(
        target=main._await_schema, args=(engine, settings, metrics), kwargs={"stopping": stopping}
    )
    waiting.start()
    waiting.join(0.3)
    assert waiting.is_alive()
    assert metrics.ready() == "the database lacks this version's schema"
    upgrade(empty_database_url)
    waiting.join(10)
    assert not waiting.is_alive()
    engine.dispose()
