"""The process ends where one of its threads did: whoever started it starts it again, whole."""

import threading

import pytest
from sqlalchemy import Engine

from services.tuning import main
from services.tuning.errors import BrokerError
from services.tuning.metrics import TunerMetrics
from services.tuning.pulse import Pulse
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
