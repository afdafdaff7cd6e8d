"""A real worker process with a real broker: it joins, measures, obeys, survives, and leaves."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kombu import Consumer

from db.states import Outcome, Purpose, WorkerRole
from services.server import valkey
from tests.servers import short_dir
from tests.waiting import wait_until
from tests.workers.conftest import EMPTY_TRACE, Bench
from tests.workers.fleet import Fleet
from workers.app import make_app, results_queue
from workers.messages import TrialOutcome, TrialStarted, result_from_json
from workers.queues import MEASURE_STEP, work_queue

QUEUE = work_queue("k" * 64, WorkerRole.BOTH)


class Farm:
    """Broker, fleet and one worker process."""

    def __init__(self, home: Path, *, before: str = "", **variables: str) -> None:
        """`before` is run in the worker's process before the worker."""
        self.home = home
        self.socket = home / "valkey.sock"
        self.start_broker()
        self.app = make_app(valkey.url(self.socket))
        self.fleet = Fleet(broker_url=valkey.url(self.socket), queue=QUEUE)
        self.fleet.start()
        self.results: list[TrialStarted | TrialOutcome] = []
        self.log = home / "worker.log"
        env = {
            "PATH": os.environ["PATH"],
            "TILEFARM_URL": self.fleet.url,
            "TILEFARM_TOKEN": "sesame",
            "TILEFARM_WORK_DIR": str(home / "work"),
            "TILEFARM_LOCK_DIR": str(home / "locks"),
            "TILEFARM_PROFILES": "local, other",
            **variables,
        }
        command = "from workers.main import run; from workers.settings import WorkerSettings as S; run(S())"
        command = before + command
        with self.log.open("wb") as log:
            self.worker = subprocess.Popen([sys.executable, "-c", command], env=env, stdout=log, stderr=log)

    def start_broker(self) -> None:
        self.broker = subprocess.Popen(
            valkey.command(self.socket), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        wait_until(self.socket.exists)

    def stop_broker(self) -> None:
        self.broker.kill()
        self.broker.wait()
        self.socket.unlink(missing_ok=True)

    def close(self) -> None:
        self.worker.kill()
        self.worker.wait()
        self.fleet.stop()
        self.app.close()
        self.stop_broker()

    def send(self, chunk: Any) -> None:
        self.app.send_task(MEASURE_STEP, args=[chunk.as_json()], queue=QUEUE, ignore_result=True)

    def await_outcomes(self, count: int, *, timeout_secs: float = 15.0) -> list[TrialOutcome]:
        """Everything that arrives on `results` until `count` outcomes are there."""

        def take(body: Any, message: Any) -> None:
            self.results.append(result_from_json(body))
            message.ack()

        deadline = time.monotonic() + timeout_secs
        with (
            self.app.connection_for_read() as connection,
            Consumer(connection, queues=[results_queue()], callbacks=[take], accept=["json"]),
        ):
            while len(self.outcomes) < count:
                assert time.monotonic() < deadline, self.log.read_text()[-3000:]
                try:
                    connection.drain_events(timeout=0.2)
                except TimeoutError:
                    continue
        return self.outcomes

    @property
    def outcomes(self) -> list[TrialOutcome]:
        return [result for result in self.results if isinstance(result, TrialOutcome)]


def children_of(pid: int) -> list[int]:
    files = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for file in files for child in file.read_text().split()]


@pytest.fixture(scope="module")
def farm() -> Iterator[Farm]:
    with short_dir() as home:
        farm = Farm(home)
        try:
            wait_until(lambda: farm.fleet.heartbeats)
            yield farm
        finally:
            farm.close()


@pytest.fixture(autouse=True)
def _fresh(farm: Farm) -> None:
    farm.results.clear()
    farm.fleet.drop = []


def test_the_worker_process_itself_loads_no_tvm():
    command = "import sys, workers.main; sys.exit(any(name.split('.')[0] == 'tvm' for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", command], check=False).returncode == 0


def test_it_announces_its_device_and_target(farm: Farm, bench: Bench):
    joined = farm.fleet.joins[0]
    assert joined["target"] == bench.detected.target
    assert joined["device_class"] == bench.device.device_class
    assert joined["profiles"] == ["local", "other"]
    assert joined["cores"] == len(os.sched_getaffinity(0))
    assert joined["tvm_version"] == bench.detected.tvm_version


def test_it_measures_a_chunk_and_tells_start_and_outcome(farm: Farm, bench: Bench, authored):
    farm.send(bench.chunk(authored["mm"], authored["mm_tiled"], authored["mm_wrong"]))
    outcomes = farm.await_outcomes(2)
    assert [outcome.outcome for outcome in outcomes] == [Outcome.OK, Outcome.WRONG_OUTPUT]
    started = [result for result in farm.results if isinstance(result, TrialStarted)]
    assert sorted(item.trial_id for item in started) == [0, 1]
    assert {item.worker_id for item in farm.results} == {f"worker-{len(farm.fleet.joins)}"}
    wait_until(lambda: farm.fleet.heartbeats[-1][1]["holding"] == [])
    assert farm.fleet.heartbeats[-1][1]["stage_secs"]["build"] > 0


def test_a_dropped_chunk_ends_at_once_and_the_next_is_measured(farm: Farm, bench: Bench, authored):
    farm.send(bench.chunk(authored["endless"], EMPTY_TRACE, purpose=Purpose.BASELINE))
    wait_until(lambda: farm.fleet.heartbeats[-1][1]["holding"] == [[0, 1]])
    began = time.monotonic()
    farm.fleet.drop = [[0, 1]]
    wait_until(lambda: farm.fleet.heartbeats[-1][1]["holding"] == [])
    farm.fleet.drop = []
    farm.send(bench.chunk(authored["mm"], authored["mm_tiled"]))
    (outcome,) = farm.await_outcomes(1)
    assert time.monotonic() - began < 9
    assert outcome.outcome == Outcome.OK


def test_a_message_that_does_not_read_harms_nobody(farm: Farm, bench: Bench, authored):
    farm.app.send_task(MEASURE_STEP, args=[{"version": 99}], queue=QUEUE, ignore_result=True)
    farm.send(bench.chunk(authored["mm"], authored["mm_tiled"]))
    assert farm.await_outcomes(1)[0].outcome == Outcome.OK


def test_it_joins_again_when_it_was_forgotten(farm: Farm):
    joins = len(farm.fleet.joins)
    farm.fleet.forgets = True
    wait_until(lambda: len(farm.fleet.joins) == joins + 1)
    wait_until(lambda: farm.fleet.heartbeats[-1][0] == f"worker-{joins + 1}")


def test_it_survives_the_api_and_its_failures(farm: Farm):
    farm.fleet.stop()
    time.sleep(0.3)
    farm.fleet.broken = 500
    farm.fleet.start()
    time.sleep(0.3)
    farm.fleet.broken = None
    beats = len(farm.fleet.heartbeats)
    wait_until(lambda: len(farm.fleet.heartbeats) > beats + 2)
    assert farm.worker.poll() is None


def test_a_worker_whose_heartbeats_are_refused_takes_nothing(farm: Farm, bench: Bench, authored):
    """To the farm it is dead: three such attempts, and a trial would be given up."""
    farm.fleet.broken = 401
    wait_until(lambda: "silence_changed" in farm.log.read_text())
    time.sleep(1.5)
    farm.send(bench.chunk(authored["mm"], authored["mm_tiled"]))
    time.sleep(1.0)
    assert "chunk_started" not in farm.log.read_text().partition("silence_changed")[2]
    farm.fleet.broken = None
    assert farm.await_outcomes(1)[0].outcome == Outcome.OK


def test_a_draining_worker_leaves_chunks_to_others(farm: Farm, bench: Bench, authored):
    farm.fleet.drain = True
    beats = len(farm.fleet.heartbeats)
    wait_until(lambda: len(farm.fleet.heartbeats) > beats + 5)
    time.sleep(1.5)
    farm.send(bench.chunk(authored["mm"], authored["mm_tiled"]))
    time.sleep(1.0)
    assert farm.fleet.heartbeats[-1][1]["holding"] == []
    farm.fleet.drain = False
    assert farm.await_outcomes(1)[0].outcome == Outcome.OK


def test_it_survives_a_broker_that_was_killed_and_emptied(farm: Farm, bench: Bench, authored):
    farm.stop_broker()
    time.sleep(4.0)
    farm.start_broker()
    began = time.monotonic()
    farm.send(bench.chunk(authored["mm"], authored["mm_tiled"]))
    assert farm.await_outcomes(1)[0].outcome == Outcome.OK
    assert time.monotonic() - began < 14


def test_outcomes_wait_for_a_broker_that_is_away(farm: Farm, bench: Bench, authored):
    farm.send(bench.chunk(authored["mm"], *[authored["mm_tiled"]] * 24))
    farm.await_outcomes(1)
    farm.stop_broker()
    time.sleep(1.5)
    farm.start_broker()
    wait_until(lambda: farm.fleet.heartbeats[-1][1]["holding"] == [], timeout_secs=30)
    farm.results.clear()
    last = farm.await_outcomes(1, timeout_secs=30)
    while last[-1].trial_id != 23:
        last = farm.await_outcomes(len(last) + 1)
    assert last[-1].outcome == Outcome.OK


def test_a_dead_fork_server_costs_its_chunk_and_nothing_more(farm: Farm, bench: Bench, authored):
    farm.send(bench.chunk(authored["endless"], EMPTY_TRACE, purpose=Purpose.BASELINE))
    wait_until(lambda: farm.fleet.heartbeats[-1][1]["holding"] == [[0, 1]])
    (fork_server,) = children_of(farm.worker.pid)
    wait_until(lambda: children_of(fork_server))  # between two, a new server would go on with the chunk
    os.kill(fork_server, signal.SIGKILL)
    wait_until(lambda: farm.fleet.heartbeats[-1][1]["holding"] == [])
    farm.send(bench.chunk(authored["mm"], authored["mm_tiled"]))
    assert farm.await_outcomes(1)[0].outcome == Outcome.OK


def test_sigterm_ends_it_quickly_even_while_it_measures(farm: Farm, bench: Bench, authored):
    farm.send(bench.chunk(authored["endless"], EMPTY_TRACE, purpose=Purpose.BASELINE))
    wait_until(lambda: farm.fleet.heartbeats[-1][1]["holding"] == [[0, 1]])
    began = time.monotonic()
    farm.worker.send_signal(signal.SIGTERM)
    assert farm.worker.wait(10) == 0, farm.log.read_text()[-3000:]
    assert time.monotonic() - began < 9
    assert farm.fleet.left == [farm.fleet.heartbeats[-1][0]]
    assert farm.outcomes == []
    assert list((farm.home / "work" / "children").iterdir()) == []
    assert "Traceback" not in farm.log.read_text()
