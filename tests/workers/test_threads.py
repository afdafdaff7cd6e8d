"""A worker's background threads: what they meet is survived, and one that dies nevertheless is not missed."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from celery.worker import state

from tests.servers import short_dir
from tests.waiting import wait_until
from tests.workers.fleet import Fleet
from tests.workers.test_worker import Farm
from workers import restarting
from workers.errors import AnswerUnreadable, ThreadDied
from workers.heartbeat import Heartbeat
from workers.holding import Attempt, Holding
from workers.membership import Membership
from workers.restarting import Restarting
from workers.selftester import DeviceReport, SelfTester
from workers.turn import Turn

GOOD = {"drop": [], "drain": True, "best_latency_secs": {}}


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    fleet = Fleet(broker_url="redis://127.0.0.1:1", queue="q")
    fleet.start()
    yield fleet
    fleet.stop()


def member(fleet: Fleet) -> Membership:
    return Membership(url=fleet.url, token="sesame", announcement={"name": "n", "target": {"kind": "llvm"}})


def beating(membership: Membership, drained: threading.Event) -> Heartbeat:
    return Heartbeat(
        membership=membership,
        holding=Holding(),
        stage_secs=dict,
        device_report=lambda: DeviceReport(facts={}),
        set_draining=lambda draining: drained.set() if draining else None,
        every_secs=0.02,
    )


@pytest.mark.parametrize(
    "answer",
    [
        [],
        "ok",
        None,
        {},
        {**GOOD, "drop": 1},
        {**GOOD, "drop": [[float("inf"), 1]]},
        {**GOOD, "best_latency_secs": []},
        {**GOOD, "best_latency_secs": {"1": 10**400}},
    ],
)
def test_a_heartbeat_outlives_an_answer_that_is_none(fleet: Fleet, answer: Any) -> None:
    membership, drained = member(fleet), threading.Event()
    assert membership.join(stopped=threading.Event()) is not None
    heartbeat = beating(membership, drained)
    fleet.says = answer
    heartbeat.start()
    wait_until(lambda: len(fleet.heartbeats) > 2)
    fleet.says = GOOD
    try:
        assert drained.wait(5)
    finally:
        heartbeat.stop()
        membership.leave()


def test_an_answer_that_does_not_read_names_its_request(fleet: Fleet) -> None:
    membership = member(fleet)
    membership.join(stopped=threading.Event())
    fleet.says = ["a page of a proxy"]
    with pytest.raises(AnswerUnreadable, match=r"POST /v1/workers/worker-1:heartbeat .* proxy"):
        membership.heartbeat(holding=[Attempt(1, 1)], stage_secs={}, report=DeviceReport(facts={}))
    membership.leave()


def test_a_heartbeat_that_a_network_swallows_is_followed_by_another_in_time(fleet: Fleet) -> None:
    """The farm waits for ten seconds in all before it takes a worker for dead."""
    membership, drained = member(fleet), threading.Event()
    membership.join(stopped=threading.Event())
    heartbeat = beating(membership, drained)
    fleet.drain, fleet.swallows_secs = True, 8.0
    heartbeat.start()
    try:
        assert drained.wait(4)
    finally:
        heartbeat.stop()
        membership.leave()


def test_a_join_waits_until_the_api_is_behind_the_address(fleet: Fleet) -> None:
    fleet.joins_say = "<html>"
    membership, stopped = member(fleet), threading.Event()
    joined: list[Any] = []
    thread = threading.Thread(target=lambda: joined.append(membership.join(stopped=stopped)))
    thread.start()
    wait_until(lambda: len(fleet.joins) == 2)
    fleet.joins_say = None
    thread.join(5)
    assert joined[0].worker_id == f"worker-{len(fleet.joins)}"
    membership.leave()


class _NoTest:
    def __init__(self, error: Exception) -> None:
        self.error, self.runs = error, 0

    def run(self) -> Any:
        self.runs += 1
        raise self.error

    def reference_secs(self) -> float:
        raise self.error


@pytest.mark.parametrize("error", [IsADirectoryError("history"), KeyError("run_secs"), ZeroDivisionError()])
def test_a_self_test_that_fails_is_told_and_tried_again(
    tmp_path: Path, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.selftester._IDLE_SECS", 0.0)
    tester = _NoTest(error)
    selftester = SelfTester(
        tester=tester,
        turn=Turn(),
        history=tmp_path / "history",
        device_class="c",
        kernel="k",
        every_secs=0.02,
        drift_limit=0.1,
        set_quarantined=lambda _: None,
    )
    selftester.start()
    wait_until(lambda: tester.runs > 2)
    selftester.stop()
    assert selftester.report().facts["selftest_error"] == str(error)


def test_a_thread_that_dies_ends_the_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restarting, "_GRACE_SECS", 0.05)
    monkeypatch.setattr(state, "should_stop", None)
    resorted = threading.Event()
    worker = Restarting(last_resort=resorted.set)

    def die() -> None:
        raise AttributeError("nobody thought of that")

    before = threading.excepthook
    with worker.watching_threads():
        thread = threading.Thread(target=die, name="heartbeat")
        thread.start()
        thread.join()
    assert threading.excepthook is before
    assert state.should_stop == 0
    assert resorted.wait(5), "Celery did not end, and nobody insisted"
    with pytest.raises(ThreadDied, match="the thread heartbeat has ended: AttributeError"):
        worker.raise_fault()
    assert state.should_stop is None


def test_a_worker_that_ended_in_time_is_not_ended_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restarting, "_GRACE_SECS", 0.05)
    monkeypatch.setattr(state, "should_stop", None)
    resorted = threading.Event()
    worker = Restarting(last_resort=resorted.set)
    worker.end_worker(ThreadDied("t"))
    worker.end_worker(ThreadDied("a later one"))
    with pytest.raises(ThreadDied, match="t"):
        worker.raise_fault()
    assert not resorted.wait(0.2)


@pytest.mark.slow
def test_a_worker_that_has_lost_a_thread_starts_again() -> None:
    with short_dir() as home:
        dies = home / "dies"
        before = (
            "import pathlib, workers.sensors as s; read = s.Sensors.read\n"
            f"s.Sensors.read = lambda self: pathlib.Path({str(dies)!r}).unlink() or [].x"
            f" if pathlib.Path({str(dies)!r}).exists() else read(self)\n"
        )
        farm = Farm(home, before=before, TILEFARM_WORKER_SELFTEST_SECS="0")
        try:
            wait_until(lambda: farm.fleet.heartbeats, timeout_secs=30)
            dies.touch()
            wait_until(lambda: len(farm.fleet.joins) == 2, timeout_secs=30)
            assert farm.worker.poll() is None, "the restart is the same process"
            assert farm.fleet.left == ["worker-1"]
            log = farm.log.read_text()
            assert ("thread_died" in log, "worker_restarts" in log) == (True, True)
            time.sleep(1.0)
            wait_until(lambda: farm.fleet.heartbeats[-1][0] == "worker-2")
        finally:
            farm.close()
