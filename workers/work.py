"""What a worker does with a chunk, by its role: all of it, build it for others, or time what others built.

It wires the parts together; what they do stands with them.
"""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from db.states import WorkerRole
from sandbox.fork_server import ForkServer
from workers.artifact_client import ArtifactClient
from workers.artifacts import ArtifactStore
from workers.build import Builder
from workers.device import DetectedTarget, Device
from workers.errors import DeviceError
from workers.fetched import FetchedKernels, FetchedReferences
from workers.holding import Holding
from workers.measure import Measurer
from workers.messages import MeasureChunk, Result
from workers.reference import ReferenceCache
from workers.settings import WorkerSettings


class Work(Protocol):
    """One chunk at a time."""

    def run(self, chunk: MeasureChunk) -> None: ...

    def stage_secs(self) -> dict[str, float]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What every role works with."""

    settings: WorkerSettings
    server: ForkServer
    device: Device
    detected: DetectedTarget
    holding: Holding
    client: ArtifactClient
    worker_id: Callable[[], str]
    publish: Callable[[Result], None]

    @property
    def linker(self) -> str | None:
        return shutil.which("ld") if self.settings.worker_linker == "auto" else None

    def store(self, name: str) -> ArtifactStore:
        return ArtifactStore(
            directory=self.settings.work_dir / name, max_count=self.settings.worker_max_artifacts
        )

    @property
    def references(self) -> ReferenceCache:
        return ReferenceCache(
            server=self.server,
            directory=Path(self.settings.work_dir) / "references",
            linker=self.linker,
            timeout_secs=self.settings.reference_timeout_secs,
            max_bytes=self.settings.reference_cache_bytes,
        )


def make_work(bench: Bench) -> Work:
    """Raises DeviceError where the role cannot be served here."""
    if bench.settings.worker_role is WorkerRole.BUILD:
        return _builder(bench)
    if bench.device.gpu is not None and bench.settings.worker_role is WorkerRole.BOTH and not bench.linker:
        raise DeviceError("a worker that builds for a GPU needs `ld` (binutils)")
    references = bench.references
    measurer = Measurer(
        server=bench.server,
        device=bench.device,
        references=references,
        artifacts=bench.store("artifacts"),
        holding=bench.holding,
        linker=bench.linker,
        tvm_version=bench.detected.tvm_version,
        own_target=bench.detected.own_target,
        worker_id=bench.worker_id,
        publish=bench.publish,
        max_waiting=bench.settings.worker_max_waiting,
    )
    if bench.settings.worker_role is WorkerRole.MEASURE:
        measurer.references = FetchedReferences(server=bench.server, cache=references, client=bench.client)
        measurer.artifacts = FetchedKernels(client=bench.client, store=bench.store("fetched"))
    return measurer


def _builder(bench: Bench) -> Builder:
    if bench.linker is None:
        raise DeviceError("a worker that builds for others needs `ld` (binutils)")
    own = bench.detected.own_target
    if own is None:
        raise DeviceError("a worker that builds needs TVM's compiler; this one has its runtime alone")
    return Builder(
        server=bench.server,
        cpus=bench.device.cpus,
        own_target=own,
        references=bench.references,
        artifacts=bench.store("artifacts"),
        client=bench.client,
        holding=bench.holding,
        linker=bench.linker,
        tvm_version=bench.detected.tvm_version,
        device_class=bench.device.device_class,
        worker_id=bench.worker_id,
        publish=bench.publish,
    )
