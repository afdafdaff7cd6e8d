"""A worker that lives and hears nothing notices it; one that is busy, or whose broker is away, does not."""

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import redis

from db.states import Outcome
from tests.servers import short_dir
from tests.waiting import wait_until
from tests.workers.conftest import Bench
from tests.workers.test_worker import Farm
from workers.app import make_app, own_queue
from workers.canary import Canary, Hearing
from workers.queues import canary_queue

_PIECE = 1 << 16


def test_two_unheard_messages_while_idle_are_deafness() -> None:
    hearing = Hearing(patience_secs=10.0)
    hearing.sent("a", at=0.0)
    hearing.look(now=9.0, idle_secs=100.0)
    assert hearing.waits
    hearing.look(now=11.0, idle_secs=100.0)
    assert (hearing.waits, hearing.deaf) == (False, False)
    hearing.sent("b", at=11.0)
    hearing.look(now=22.0, idle_secs=100.0)
    assert hearing.deaf


def test_what_is_heard_in_between_makes_up_for_what_was_lost() -> None:
    hearing = Hearing(patience_secs=10.0)
    hearing.sent("a", at=0.0)
    hearing.look(now=11.0, idle_secs=100.0)
    hearing.sent("b", at=11.0)
    hearing.heard("a")
    assert hearing.waits
    hearing.heard("b")
    assert not hearing.waits
    hearing.sent("c", at=30.0)
    hearing.look(now=41.0, idle_secs=100.0)
    assert not hearing.deaf


def test_a_busy_worker_hears_later() -> None:
    hearing = Hearing(patience_secs=10.0)
    hearing.sent("a", at=0.0)
    for now, idle_secs in ((60.0, 0.0), (65.0, 5.0)):
        hearing.look(now=now, idle_secs=idle_secs)
        assert hearing.waits
    hearing.look(now=71.0, idle_secs=11.0)
    assert (hearing.waits, hearing.misses) == (False, 1)


def test_a_queue_that_nobody_hears_is_forgotten(valkey_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a pod that is gone would leave keys in the broker for ever."""
    monkeypatch.setattr("workers.app._OWN_QUEUE_SECS", 0.5)
    app, name = make_app(valkey_url), canary_queue("node/pod-x7k2p")
    app.amqp.queues.add(own_queue(name))
    sending = Canary(app=app, queue=name, every_secs=10.0, idle_secs=lambda: 0.0, on_deaf=lambda: None)
    broker = redis.Redis.from_url(valkey_url.replace("redis+socket://", "unix://"))
    sending._send()
    assert (broker.llen(name), sending.broker_away) == (1, False)
    wait_until(lambda: not broker.exists(name), timeout_secs=5)
    lasting = {key.decode() for key in broker.keys(f"*{name}*") if broker.ttl(key) == -1}
    swept = {f"_kombu.binding.{entry.decode()}" for entry, _ in broker.zscan_iter("_kombu.binding_deadlines")}
    assert lasting <= swept, "what has no end of its own is swept by other workers"
    broker.close()
    app.close()


class Proxy:
    """TCP on loopback before the broker's Unix socket; `deafen` leaves what is connected open, and silent."""

    def __init__(self, broker: Path) -> None:
        self._broker = broker
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._silent: set[int] = set()
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self._listener.getsockname()[1]}/0"

    def deafen(self) -> None:
        self._silent |= set(range(len(self._pairs)))

    def cut(self) -> None:
        for pair in self._pairs:
            for end in pair:
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
                broker = socket.socket(socket.AF_UNIX)
                broker.connect(str(self._broker))
            except OSError:
                return
            number = len(self._pairs)
            self._pairs.append((client, broker))
            for source, sink in ((client, broker), (broker, client)):
                threading.Thread(target=self._pump, args=(number, source, sink), daemon=True).start()

    def _pump(self, number: int, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while piece := source.recv(_PIECE):
                if number not in self._silent:
                    sink.sendall(piece)
        with suppress(OSError):
            sink.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def farm() -> Iterator[tuple[Farm, Proxy]]:
    with short_dir() as home:
        proxy = Proxy(home / "valkey.sock")
        farm = Farm(
            home,
            TILEFARM_BROKER_URL=proxy.url,
            TILEFARM_WORKER_CANARY_SECS="2",
            TILEFARM_WORKER_SELFTEST_SECS="0",
        )
        try:
            wait_until(lambda: farm.fleet.heartbeats, timeout_secs=30)
            yield farm, proxy
        finally:
            farm.close()
            proxy.close()


@pytest.mark.slow
def test_a_worker_whose_connection_is_silent_starts_again_and_works(
    farm: tuple[Farm, Proxy], bench: Bench, authored: dict[str, str]
) -> None:
    worker, proxy = farm
    chunk = bench.chunk(authored["mm"], authored["mm_tiled"])
    worker.send(chunk)
    assert worker.await_outcomes(1)[0].outcome is Outcome.OK
    assert len(worker.fleet.joins) == 1
    proxy.cut()
    worker.results.clear()
    worker.send(chunk)
    assert worker.await_outcomes(1)[0].outcome is Outcome.OK
    assert len(worker.fleet.joins) == 1, "a connection that was cut is made anew, without a restart"
    proxy.deafen()
    worker.results.clear()
    worker.send(chunk)
    wait_until(lambda: len(worker.fleet.joins) == 2, timeout_secs=40)
    assert worker.worker.poll() is None, "the restart is the same process"
    assert "worker_deaf" in worker.log.read_text()
    worker.send(chunk)
    assert worker.await_outcomes(1, timeout_secs=30)[0].outcome is Outcome.OK


@pytest.mark.slow
def test_outcomes_find_another_way_where_their_connection_is_silent(
    farm: tuple[Farm, Proxy], bench: Bench, authored: dict[str, str]
) -> None:
    """Nobody ends such a connection: a worker would wait for its answer for ever, its device with it."""
    worker, proxy = farm
    worker.send(bench.chunk(authored["mm"], *[authored["mm_tiled"]] * 24))
    worker.await_outcomes(1)
    proxy.deafen()
    wait_until(lambda: worker.fleet.heartbeats[-1][1]["holding"] == [], timeout_secs=60)
    while worker.await_outcomes(1)[-1].trial_id != 23:
        worker.await_outcomes(len(worker.outcomes) + 1)
    wait_until(lambda: len(worker.fleet.joins) == 2, timeout_secs=60)
