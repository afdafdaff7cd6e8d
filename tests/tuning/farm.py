"""A tuner service without a broker and without TVM: scripted search children, and a worker that draws times.

Everything between is real: the rows, the loop, the chunks, the reading of results.
"""

import base64
import json
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Self

from sqlalchemy import Engine

from db.states import Outcome, Purpose, WorkerRole
from sandbox.errors import ChildDied
from services.signing import Signer
from services.tuning.errors import BrokerError
from services.tuning.leases import Leases
from services.tuning.loop import Tuner
from services.tuning.record import read_result, record
from services.tuning.revisions import Revisions
from services.tuning.search_host import SearchHost
from services.tuning.settings import TunerSettings
from tests.tuning.rows import sha256
from workers.messages import MeasureChunk, TrialOrder, TrialOutcome, TrialStarted, unpack_text

WORKER = "worker-1"


class ScriptedChild:
    """A search over the programs 0, 1, 2, … `space`; it never suggests what it knows."""

    pid = 0

    def __init__(self, *, space: int = 1000, dies: bool = False) -> None:
        self._space = space
        self._dies = dies
        self._known: set[str] = set()
        self._answer: dict[str, Any] = {}
        self.requests: list[Mapping[str, Any]] = []
        self.closed = threading.Event()

    def send(self, obj: Mapping[str, Any], *_blobs: bytes) -> None:
        self.requests.append(json.loads(json.dumps(obj)))
        self._answer = getattr(self, f"_{obj['op']}")(obj)

    def recv(self, _timeout_secs: float | None) -> tuple[dict[str, Any], list[bytes]]:
        if self._dies:
            raise ChildDied(reason="SIGSEGV", signal=11)
        return self._answer, []

    def kill(self) -> None:
        self.closed.set()

    def close(self) -> None:
        self.closed.set()

    def _open(self, request: Mapping[str, Any]) -> dict[str, Any]:
        self._known.update(result["program_hash"] for result in request["known"])
        self._known.update(request["pending"])
        return {"ok": True, "design_spaces": 1}

    def _update(self, _request: Mapping[str, Any]) -> dict[str, Any]:
        return {"ok": True}

    def _suggest(self, request: Mapping[str, Any]) -> dict[str, Any]:
        free = [n for n in range(self._space) if f"{n:016x}" not in self._known][: request["count"]]
        self._known.update(f"{number:016x}" for number in free)
        return {
            "candidates": [_candidate(number) for number in free],
            "exhausted": len(self._known) >= self._space,
            "stage_secs": {"search": 0.0},
        }


def _candidate(number: int) -> dict[str, Any]:
    trace = f"[[],[{number}]]"
    return {
        "trace": trace,
        "trace_hash": sha256(trace),
        "program_hash": f"{number:016x}",
        "features": base64.b64encode(b"f").decode(),
        "predicted_score": None,
    }


def program(order: TrialOrder) -> int | None:
    """The number of a candidate; None for the baseline."""
    decisions = json.loads(unpack_text(order.trace))[1]
    return decisions[0] if decisions else None


def latency_of(number: int | None) -> float:
    """The untuned program takes 10 ms; program n takes 2 ms and n µs."""
    return 0.01 if number is None else 0.002 + 1e-6 * number


class Farm:
    """The service and its worker, turned by hand: `tick`, `measure`, or `run_until`."""

    def __init__(
        self,
        engine: Engine,
        *,
        child: Callable[[], ScriptedChild] = ScriptedChild,
        owner: str = "a",
        signer: Signer | None = None,
        **settings: Any,
    ) -> None:
        self.engine = engine
        self.settings = TunerSettings(
            database_url="sqlite://",
            broker_url="memory://",
            **{
                "batch_size": 4,
                "first_batch_size": 4,
                "chunk_size": 4,
                "chunk_size_max": 4,
                "revision_secs": 0.0,
            }
            | settings,
        )
        self.children: list[ScriptedChild] = []
        self.sent: list[MeasureChunk] = []
        self.all_sent: list[MeasureChunk] = []
        #: By chunk: of the workers that it was sent to.
        self.roles: dict[str, WorkerRole] = {}
        self.broker_is_down = False
        #: What the tuner tells of its seconds, by stage.
        self.spent: dict[str, float] = {}
        self._child = child
        self.revisions = Revisions(secs=self.settings.revision_secs)
        self.tuner = Tuner(
            engine=engine,
            leases=Leases(engine=engine, owner=owner, settings=self.settings),
            host=SearchHost(engine=engine, spawn=self._spawn, settings=self.settings),
            send=self._send,
            revisions=self.revisions,
            settings=self.settings,
            signer=signer,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.tuner.close()

    def _spend(self, stage: str, secs: float) -> None:
        self.spent[stage] = self.spent.get(stage, 0.0) + secs

    def tick(self, count: int = 1) -> None:
        for _ in range(count):
            self.tuner.tick(self._spend)
            time.sleep(0.01)

    def measure(self, answer: Callable[[TrialOrder], TrialOutcome] | None = None) -> None:
        """Answer all chunks that were sent."""
        chunks, self.sent = self.sent, []
        for chunk in chunks:
            for order in chunk.trials:
                started = TrialStarted(trial_id=order.trial_id, attempt=order.attempt, worker_id=WORKER)
                self.report(started, (answer or ok)(order))

    def report(self, *results: TrialStarted | TrialOutcome) -> None:
        """As from the results queue: JSON in, one transaction."""
        read = [read_result(json.dumps(result.as_json())) for result in results]
        self.revisions.changed(record(self.engine, read))

    def run_until(
        self,
        done: Callable[[], bool],
        *,
        answer: Callable[[TrialOrder], TrialOutcome] | None = None,
        secs: float = 20.0,
    ) -> None:
        deadline = time.monotonic() + secs
        while not done():
            assert time.monotonic() < deadline, "the farm did not get there in time"
            self.tick()
            if not done():
                self.measure(answer)

    def _spawn(self) -> ScriptedChild:
        child = self._child()
        self.children.append(child)
        return child

    def _send(self, chunk: MeasureChunk, target_key: str, role: WorkerRole) -> None:
        assert len(target_key) == 64
        if self.broker_is_down:
            raise BrokerError("the broker is down")
        chunk = MeasureChunk.from_json(json.loads(json.dumps(chunk.as_json())))
        self.sent.append(chunk)
        self.all_sent.append(chunk)
        self.roles[chunk.chunk_id] = role


def outcome(order: TrialOrder, kind: Outcome, **values: Any) -> TrialOutcome:
    return TrialOutcome(
        trial_id=order.trial_id,
        attempt=order.attempt,
        worker_id=WORKER,
        outcome=kind,
        **{"stage_secs": {"build": 0.01}, "device_class": "cpu", "tvm_version": "0.27.0"} | values,
    )


def ok(order: TrialOrder) -> TrialOutcome:
    """Measured as latency_of says; an incumbent, where there is one, too."""
    incumbent = None
    if order.incumbent_trace is not None:
        incumbent = (latency_of(json.loads(unpack_text(order.incumbent_trace))[1][0]),)
    return outcome(order, Outcome.OK, run_secs=(latency_of(program(order)),), incumbent_run_secs=incumbent)


def wrong_at_confirm(order: TrialOrder) -> TrialOutcome:
    if order.purpose is Purpose.CONFIRM:
        return outcome(order, Outcome.WRONG_OUTPUT, error="max error 3")
    return ok(order)
