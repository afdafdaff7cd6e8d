"""A worker that is told to end does so at once, whatever it waits for: a device, the API, the broker."""

import fcntl
import os
import signal
import socket
import time
from collections.abc import Iterator

import pytest

from db.states import Outcome, Purpose
from tests.servers import short_dir
from tests.waiting import wait_until
from tests.workers.conftest import EMPTY_TRACE, Bench
from tests.workers.test_worker import Farm
from workers.app import results_queue
from workers.messages import TrialUnbuilt, result_from_json

#: Of `tilefarm-server up`, which ends the parts one by one, it is ten seconds.
ENOUGH_SECS = 5.0


@pytest.fixture
def farm() -> Iterator[Farm]:
    with short_dir() as home:
        farm = Farm(home, TILEFARM_WORKER_SELFTEST_SECS="0")
        try:
            wait_until(lambda: farm.fleet.heartbeats, timeout_secs=30)
            yield farm
        finally:
            farm.close()


def ends(farm: Farm, *, code: int = 0) -> float:
    """Seconds."""
    began = time.monotonic()
    farm.worker.send_signal(signal.SIGTERM)
    assert farm.worker.wait(30) == code, farm.log.read_text()[-3000:]
    return time.monotonic() - began


def test_while_another_process_times_on_its_device(
    farm: Farm, bench: Bench, authored: dict[str, str]
) -> None:
    lock_fd = os.open(next((farm.home / "locks").iterdir()), os.O_RDONLY)
    fcntl.flock(lock_fd, fcntl.LOCK_EX)
    farm.send(bench.chunk(authored["mm"], authored["mm_tiled"]))
    wait_until(lambda: farm.fleet.heartbeats[-1][1]["holding"] == [[0, 1]])
    time.sleep(1.5)
    assert farm.outcomes == []
    assert ends(farm) < ENOUGH_SECS
    os.close(lock_fd)
    assert farm.fleet.left == ["worker-1"]


def test_what_it_gives_up_is_given_back_and_not_lost(
    farm: Farm, bench: Bench, authored: dict[str, str]
) -> None:
    """Three workers lost over a trial, and it is given up; one that is told to end is none of them."""
    farm.send(bench.chunk(authored["endless"], EMPTY_TRACE, EMPTY_TRACE, purpose=Purpose.BASELINE))
    wait_until(lambda: farm.fleet.heartbeats[-1][1]["holding"] == [[0, 1], [1, 1]])
    time.sleep(1.0)
    assert ends(farm) < ENOUGH_SECS
    given_back: list[TrialUnbuilt] = []
    with farm.app.connection_for_read() as connection:
        queue = connection.SimpleQueue(results_queue())
        while len(given_back) < 2:
            message = queue.get(timeout=5)
            message.ack()
            result = result_from_json(message.payload)
            given_back += [result] if isinstance(result, TrialUnbuilt) else []
        queue.close()
    assert [(result.trial_id, result.attempt) for result in given_back] == [(0, 1), (1, 1)]
    assert {(result.worker_id, result.reason) for result in given_back} == {("worker-1", "the worker ends")}


def test_while_its_outcomes_wait_for_a_broker_that_is_away(
    farm: Farm, bench: Bench, authored: dict[str, str]
) -> None:
    farm.send(bench.chunk(authored["mm"], *[authored["mm_tiled"]] * 24))
    assert farm.await_outcomes(1)[0].outcome is Outcome.OK
    farm.stop_broker()
    time.sleep(2.0)
    assert farm.fleet.heartbeats[-1][1]["holding"]
    assert ends(farm) < ENOUGH_SECS
    assert farm.fleet.left == ["worker-1"]
    farm.start_broker()


def test_while_the_api_takes_connections_and_answers_nothing(farm: Farm) -> None:
    farm.fleet.stop()
    with socket.create_server(("127.0.0.1", farm.fleet.port)):
        time.sleep(1.0)
        assert ends(farm) < ENOUGH_SECS
    farm.fleet.start()


def test_while_something_hangs_that_nobody_thought_of(bench: Bench, authored: dict[str, str]) -> None:
    before = "import time; from workers.measure import Measurer; Measurer.run = lambda *_: time.sleep(60)\n"
    with short_dir() as home:
        farm = Farm(home, before=before, TILEFARM_WORKER_SELFTEST_SECS="0")
        try:
            wait_until(lambda: farm.fleet.heartbeats, timeout_secs=30)
            farm.send(bench.chunk(authored["mm"], authored["mm_tiled"]))
            wait_until(lambda: "chunk_started" in farm.log.read_text())
            assert ends(farm, code=1) < 10
            assert farm.fleet.left == ["worker-1"]
            assert "worker_hangs" in farm.log.read_text()
        finally:
            farm.close()
