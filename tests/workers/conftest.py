"""One fork server with TVM for the whole room, and a Measurer whose outcomes are collected."""

import hashlib
import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from db.states import Purpose
from sandbox.fork_server import ForkServer
from workers.artifacts import ArtifactStore
from workers.device import DetectedTarget, Device, detect_target, find_device
from workers.holding import Holding
from workers.inputs import InputRule, Parameter, make_inputs
from workers.measure import Measurer
from workers.messages import MeasureChunk, MeasurePolicy, TrialOrder, TrialOutcome, TrialStarted, pack_text
from workers.reference import ReferenceCache, reference_name
from workers.reference_files import write_reference
from workers.settings import WorkerSettings

EMPTY_TRACE = "[[],[]]"
#: Parameters of modules without a reference: names and dtypes.
INT64 = (("A", "int64"),)
INT32 = (("A", "int32"), ("B", "int32"))
_NEVER_CUT_OFF = 1e6


@dataclass
class Bench:
    """A Measurer without broker and API."""

    server: ForkServer
    device: Device
    detected: DetectedTarget
    directory: Path
    linker: str | None = field(default_factory=lambda: shutil.which("ld"))
    holding: Holding = field(default_factory=Holding)
    started: list[TrialStarted] = field(default_factory=list)
    outcomes: list[TrialOutcome] = field(default_factory=list)

    def publish(self, obj: TrialStarted | TrialOutcome) -> None:
        (self.outcomes if isinstance(obj, TrialOutcome) else self.started).append(obj)

    def measurer(self) -> Measurer:
        return Measurer(
            server=self.server,
            device=self.device,
            references=ReferenceCache(
                server=self.server,
                directory=self.directory / "references",
                linker=self.linker,
                timeout_secs=20.0,
                max_bytes=1 << 28,
            ),
            artifacts=ArtifactStore(directory=self.directory / "artifacts"),
            holding=self.holding,
            linker=self.linker,
            tvm_version=self.detected.tvm_version,
            own_target=self.detected.own_target,
            worker_id=lambda: "w1",
            publish=self.publish,
        )

    def measure(
        self,
        module: str,
        *traces: str,
        purpose: Purpose = Purpose.SEARCH,
        best_latency_secs: float | None = None,
        incumbent: str | None = None,
        **policy: Any,
    ) -> list[TrialOutcome]:
        """The outcomes of these traces, in order."""
        self.outcomes.clear()
        self.measurer().run(
            self.chunk(
                module,
                *traces,
                purpose=purpose,
                best_latency_secs=best_latency_secs,
                incumbent=incumbent,
                **policy,
            )
        )
        return sorted(self.outcomes, key=lambda outcome: outcome.trial_id)

    def chunk(
        self,
        module: str,
        *traces: str,
        purpose: Purpose = Purpose.SEARCH,
        best_latency_secs: float | None = None,
        incumbent: str | None = None,
        **policy: Any,
    ) -> MeasureChunk:
        """An order to this bench's device, whose trials are cut off only where a test gives a ratio.

        What shares the cores with other tests may take six times as long as it did a moment before.
        """
        policy = {"cut_off_ratio": _NEVER_CUT_OFF, **policy}
        orders = tuple(
            TrialOrder(
                trial_id=number,
                attempt=1,
                purpose=purpose,
                trace=pack_text(trace),
                incumbent_trace=None if incumbent is None else pack_text(incumbent),
            )
            for number, trace in enumerate(traces)
        )
        return MeasureChunk(
            chunk_id="c1",
            search_id=1,
            target=self.detected.target,
            module=pack_text(module),
            module_sha256=hashlib.sha256(module.encode()).hexdigest(),
            policy=MeasurePolicy(**policy),
            trials=orders,
            best_latency_secs=best_latency_secs,
        )


def place_reference(bench: Bench, module: str, parameters: Sequence[tuple[str, str]]) -> None:
    """A reference for a module that has none, because it does not end well: its inputs, unchanged."""
    chunk = bench.chunk(module, EMPTY_TRACE)
    held = [Parameter(name=name, shape=(16,), dtype=dtype) for name, dtype in parameters]
    rule = InputRule(module_sha256=chunk.module_sha256, input_seed=0, integer_low=0, integer_high=8)
    inputs = make_inputs(held, rule)
    write_reference(
        bench.directory / "references" / reference_name(chunk),
        parameters=held,
        inputs=inputs,
        outputs={len(held) - 1: inputs[-1]},
        reduction_length=1,
    )


@pytest.fixture(scope="session")
def children_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the server's children have their directories."""
    return tmp_path_factory.mktemp("children")


@pytest.fixture(scope="session")
def server(children_dir: Path) -> Iterator[ForkServer]:
    with ForkServer(["workers.preload", "tests.workers.author"], work_dir=children_dir) as server:
        yield server


@pytest.fixture(scope="session")
def detected(server: ForkServer) -> DetectedTarget:
    return detect_target(server, num_cores=2)


@pytest.fixture
def bench(server: ForkServer, detected: DetectedTarget, tmp_path: Path) -> Bench:
    device = find_device("cpu", num_cores=None, lock_dir=tmp_path / "locks")
    return Bench(server=server, device=device, detected=detected, directory=tmp_path)


@pytest.fixture(scope="session")
def authored(server: ForkServer) -> dict[str, Any]:
    """Modules and traces, made in a child: this process never loads TVM."""
    from sandbox.limits import Limits

    with server.spawn("tests.workers.author:run", limits=Limits(large_stack=True)) as child:
        answer, _ = child.recv(60)
    json.dumps(answer)
    return answer


@pytest.fixture
def settings(tmp_path: Path) -> WorkerSettings:
    return WorkerSettings(url="http://127.0.0.1:1", work_dir=tmp_path)
