"""A worker's Measurer without broker and API: traces in, outcomes out, by the policy that a search uses."""

import hashlib
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from db.states import Purpose
from sandbox.fork_server import ForkServer
from workers.artifacts import ArtifactStore
from workers.device import find_device
from workers.holding import Holding
from workers.measure import Measurer
from workers.messages import MeasureChunk, MeasurePolicy, TrialOrder, TrialOutcome, pack_text
from workers.reference import ReferenceCache
from workers.settings import WorkerSettings

_REFERENCE_BYTES = 1 << 30


class Measuring:
    """One device and one fork server; chunks of one target, measured one after the other."""

    def __init__(self, server: ForkServer, directory: Path, target: Mapping[str, Any]) -> None:
        self._target = target
        self._outcomes: list[TrialOutcome] = []
        settings = WorkerSettings(work_dir=directory)
        device = find_device("cpu", num_cores=None, lock_dir=settings.lock_dir)
        linker = shutil.which("ld")
        self._measurer = Measurer(
            server=server,
            device=device,
            references=ReferenceCache(
                server=server,
                directory=directory / "references",
                linker=linker,
                timeout_secs=settings.reference_timeout_secs,
                max_bytes=_REFERENCE_BYTES,
            ),
            artifacts=ArtifactStore(directory=directory / "artifacts"),
            holding=Holding(),
            linker=linker,
            tvm_version="",
            worker_id=lambda: "bench",
            publish=self._publish,
        )

    def outcomes(self, module: str, traces: Sequence[str], policy: MeasurePolicy) -> list[TrialOutcome]:
        """One for each trace, in their order. The best so far falls as they come in, as in a search."""
        self._outcomes.clear()
        orders = tuple(
            TrialOrder(trial_id=number, attempt=1, purpose=Purpose.SEARCH, trace=pack_text(trace))
            for number, trace in enumerate(traces)
        )
        self._measurer.run(
            MeasureChunk(
                chunk_id="bench",
                search_id=1,
                target=dict(self._target),
                module=pack_text(module),
                module_sha256=hashlib.sha256(module.encode()).hexdigest(),
                policy=policy,
                trials=orders,
            )
        )
        return sorted(self._outcomes, key=lambda outcome: outcome.trial_id)

    def _publish(self, obj: object) -> None:
        if isinstance(obj, TrialOutcome):
            self._outcomes.append(obj)


@contextmanager
def measuring(target: Mapping[str, Any]) -> Iterator[Measuring]:
    with tempfile.TemporaryDirectory(prefix="tilefarm-bench-") as text:
        directory = Path(text)
        children = directory / "children"
        children.mkdir()
        with ForkServer(["workers.preload"], work_dir=children) as server:
            yield Measuring(server, directory, target)
