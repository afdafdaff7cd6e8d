"""Self-test kernels for hosts that cannot build: a build worker makes them once and says where they are.

They travel as any kernel does: by their SHA-256, through the API's artifacts. A build worker names them among
its facts; a device whose TVM is the runtime alone asks the API what a builder of its target has named.
"""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import structlog

from sandbox.errors import SandboxError
from sandbox.fork_server import ForkServer
from sandbox.limits import Limits
from workers.artifact_client import ArtifactClient
from workers.errors import KernelsMissing, WorkerError
from workers.selftest import ShippedKernels, entries
from workers.selftester import DeviceReport

_log = structlog.get_logger(__name__)
#: Of one array of the copy: beyond the last cache of the boards that cannot build.
_ARRAY_BYTES = 128 << 20
_TIMEOUT_SECS = 60.0
#: How often the API is told that they are still wanted; it drops what nobody asks for within an hour.
_SEND_EVERY_SECS = 600.0
_RETRY_SECS = 10.0
_STOP_SECS = 2.0


@dataclass(slots=True, kw_only=True)
class KernelShipper:
    """A build worker's thread. `report` may be read by any thread."""

    server: ForkServer
    client: ArtifactClient
    target: Mapping[str, Any]
    linker: str
    _report: DeviceReport = field(default_factory=lambda: DeviceReport(facts={}))
    _stopped: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="selftest-kernels", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        if self._thread is not None:
            self._thread.join(_STOP_SECS)

    def report(self) -> DeviceReport:
        return self._report

    def _run(self) -> None:
        built: tuple[dict[str, Any], bytes] | None = None
        while not self._stopped.is_set():
            pause_secs = _SEND_EVERY_SECS
            try:
                built = built or self._build()
                made, library = built
                sha256 = self.client.send(library, unwanted=self._stopped.is_set, ask=True)
                kernels = ShippedKernels.from_json({**made, "sha256": sha256})
                self._report = DeviceReport(facts={"selftest_kernels": asdict(kernels)})
            except (SandboxError, WorkerError, OSError, LookupError, TypeError, ValueError) as error:
                _log.warning("selftest_kernels_not_sent", kind=type(error).__name__, reason=str(error))
                pause_secs = _RETRY_SECS
            self._stopped.wait(pause_secs)

    def _build(self) -> tuple[dict[str, Any], bytes]:
        limits = Limits(cpu_secs=_TIMEOUT_SECS, may_start_processes=True)
        order = {
            "target": dict(self.target),
            "cores": self.target.get("num-cores", 1),
            "array_bytes": _ARRAY_BYTES,
            "linker": self.linker,
        }
        with self.server.spawn(f"{entries(self.target)}:build", limits=limits) as child:
            child.send(order)
            made, blobs = child.recv(_TIMEOUT_SECS)
        if "error" in made:
            raise WorkerError(str(made["error"]))
        return made, blobs[0]


@dataclass(slots=True, kw_only=True)
class KernelFetcher:
    """What a device without a compiler tests itself with; used by the self-test's thread alone."""

    client: ArtifactClient
    #: Under which the API knows this worker.
    worker_id: Callable[[], str]
    stopped: threading.Event = field(default_factory=threading.Event)
    _have: tuple[ShippedKernels, bytes] | None = None
    _not_before: float = 0.0

    def get(self) -> tuple[ShippedKernels, bytes]:
        """Raises KernelsMissing where no builder of this target has sent any yet."""
        if self._have is None:
            if time.monotonic() < self._not_before:
                raise KernelsMissing("no build worker of this target has sent self-test kernels yet")
            self._not_before = time.monotonic() + _RETRY_SECS
            self._have = self._fetch()
        return self._have

    def _fetch(self) -> tuple[ShippedKernels, bytes]:
        named = self.client.selftest_kernels(self.worker_id(), unwanted=self.stopped.is_set)
        if named is None:
            raise KernelsMissing("no build worker of this target has sent self-test kernels yet")
        try:
            kernels = ShippedKernels.from_json(named)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise KernelsMissing(f"what the API names does not read: {error!r}") from error
        library = self.client.fetch(kernels.sha256, unwanted=self.stopped.is_set)
        if library is None:
            raise KernelsMissing(f"the self-test kernels {kernels.sha256} are gone")
        return kernels, library
