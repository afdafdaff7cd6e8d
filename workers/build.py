"""A chunk of trials built for others to time: kernels and the reference go to the API, their names back.

A candidate that does not build has its outcome here. One that does is told as TrialBuilt: its row waits for a
worker that measures. A trial that was dropped publishes nothing.
"""

import dataclasses
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import structlog

from db.states import Outcome, Purpose
from sandbox.fork_server import ForkServer
from workers.artifact_client import ArtifactClient
from workers.artifacts import ArtifactStore, artifact_key
from workers.build_limit import BuildTimes
from workers.disk import await_space, says_full
from workers.errors import ArtifactRefused, ArtifactUnwanted, ReferenceFailed, WorkerError
from workers.holding import Attempt, Holding
from workers.messages import (
    MAX_ERROR_CHARS,
    REFERENCE_ERROR,
    Built,
    MeasureChunk,
    MessageError,
    Result,
    TrialBuilt,
    TrialOrder,
    TrialOutcome,
    TrialStarted,
    TrialUnbuilt,
    checked_module,
    unpack_text,
)
from workers.reference import ReferenceCache
from workers.reference_files import pack_reference
from workers.shot import Shot, ShotResult

_log = structlog.get_logger(__name__)
_ENTRY = "workers.build_child:run"


@dataclass(slots=True, kw_only=True)
class Builder:
    """Builds chunks, one at a time, its candidates side by side on `cpus`."""

    server: ForkServer
    cpus: tuple[int, ...]
    #: Canonical dict of this host's own CPU: references are computed here, whatever is built for.
    own_target: dict[str, Any]
    references: ReferenceCache
    artifacts: ArtifactStore
    client: ArtifactClient
    holding: Holding
    linker: str
    tvm_version: str
    device_class: str
    worker_id: Callable[[], str]
    #: Called from several threads.
    publish: Callable[[Result], None]
    build_times: BuildTimes = field(default_factory=BuildTimes)
    _stage_secs: Counter[str] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def stage_secs(self) -> dict[str, float]:
        """Seconds by stage since the start, over all children."""
        with self._lock:
            return dict(self._stage_secs)

    def run(self, chunk: MeasureChunk) -> None:
        """Build every trial of the chunk that is not dropped meanwhile.

        Raises MessageError where the chunk does not read, SandboxError where the farm itself fails.
        """
        module_text = checked_module(chunk)
        attempts = [Attempt(order.trial_id, order.attempt) for order in chunk.trials]
        self.holding.take(attempts)
        try:
            await_space(self.artifacts.directory, given_up=lambda: all(map(self.holding.dropped, attempts)))
            reference = self._reference(chunk, module_text, attempts)
            with ThreadPoolExecutor(len(self.cpus), thread_name_prefix="build") as pool:
                jobs = [
                    pool.submit(self._trial, chunk, order, module_text, reference) for order in chunk.trials
                ]
            for job in jobs:
                job.result()
        except ReferenceFailed as error:
            text = f"{REFERENCE_ERROR} {error}"[:MAX_ERROR_CHARS]
            for order in chunk.trials:
                self._report(order, ShotResult(outcome=Outcome.REJECTED, error=text))
        except ArtifactUnwanted as error:
            _log.info("chunk_unwanted", chunk_id=chunk.chunk_id, reason=str(error))
        finally:
            self.holding.release(attempts)

    def _reference(self, chunk: MeasureChunk, module_text: str, attempts: list[Attempt]) -> str:
        """The reference's name at the API, computed and sent where that has not happened."""
        own = dataclasses.replace(chunk, target=self.own_target)
        place = self.references.get(own, module_text, holding=self.holding, attempts=attempts)
        try:
            return self.client.send(
                pack_reference(place),
                ask=any(order.attempt > 1 for order in chunk.trials),
                unwanted=lambda: all(self.holding.dropped(attempt) for attempt in attempts),
            )
        except ArtifactRefused as error:
            raise ReferenceFailed(f"it cannot travel to the device: {error}") from error

    def _trial(self, chunk: MeasureChunk, order: TrialOrder, module_text: str, reference: str) -> None:
        attempt = Attempt(order.trial_id, order.attempt)
        if self.holding.dropped(attempt):
            return
        self.publish(TrialStarted(trial_id=order.trial_id, attempt=order.attempt, worker_id=self.worker_id()))
        spent, searching = Counter[str](), order.purpose == Purpose.SEARCH
        names: list[str] = []
        traces = [order.trace] + ([] if order.incumbent_trace is None else [order.incumbent_trace])
        try:
            for packed in traces:
                made = self._library(chunk, attempt, module_text, packed, spent, searching=searching)
                if made is None:
                    return
                if isinstance(made, ShotResult):
                    self._report(order, made)
                    return
                name = self.client.send(
                    made, unwanted=lambda: self.holding.dropped(attempt), ask=order.attempt > 1
                )
                names.append(name)
        except ArtifactRefused as error:
            failed = ShotResult(outcome=Outcome.BUILD_ERROR, error=str(error), stage_secs=spent)
            self._report(order, failed)
        except ArtifactUnwanted:
            return
        else:
            incumbent = names[1] if len(names) > 1 else None
            built = Built(kernel=names[0], incumbent=incumbent, reference=reference)
            self._report_built(order, built, spent)
        finally:
            self.holding.release([attempt])

    def _library(
        self,
        chunk: MeasureChunk,
        attempt: Attempt,
        module_text: str,
        packed: str,
        spent: Counter[str],
        *,
        searching: bool,
    ) -> bytes | ShotResult | None:
        """The linked kernel, or how its build failed; None where it was dropped."""
        try:
            trace = unpack_text(packed)
        except MessageError as error:
            return ShotResult(outcome=Outcome.REJECTED, error=str(error))
        order = {"module": module_text, "trace": trace, "target": chunk.target, "linker": self.linker}
        key = artifact_key(order, tvm_version=self.tvm_version)
        known = self.artifacts.get(key)
        if known is not None:
            return known
        shot = Shot(
            server=self.server, holding=self.holding, attempt=attempt, policy=chunk.policy, entry=_ENTRY
        )
        try:
            shot.build(
                order,
                cpus=self.cpus,
                threads=1,
                artifacts=self.artifacts,
                artifact=key,
                limit_secs=self._limit_secs(chunk, searching=searching),
            )
        finally:
            shot.close()
        spent.update(shot.stage_secs)
        if shot.result is not None or self.holding.dropped(attempt):
            return shot.result
        if searching and shot.build_secs is not None:
            self.build_times.add(chunk.search_id, shot.build_secs)
        library = self.artifacts.get(key)
        if library is None:
            raise WorkerError(f"a kernel was built and is not there: {self.artifacts.directory} takes none")
        return library

    def _limit_secs(self, chunk: MeasureChunk, *, searching: bool) -> float:
        if not searching:
            return chunk.policy.build_timeout_secs
        return self.build_times.limit_secs(chunk.search_id, chunk.policy)

    def _report_built(self, order: TrialOrder, built: Built, spent: Counter[str]) -> None:
        if self.holding.dropped(Attempt(order.trial_id, order.attempt)):
            return
        self.publish(
            TrialBuilt(
                trial_id=order.trial_id,
                attempt=order.attempt,
                worker_id=self.worker_id(),
                built=built,
                stage_secs=dict(spent),
            )
        )
        with self._lock:
            self._stage_secs.update(spent)

    def _report(self, order: TrialOrder, result: ShotResult) -> None:
        """The outcome of a trial that no device needs to see."""
        if self.holding.dropped(Attempt(order.trial_id, order.attempt)):
            return
        if says_full(result.error):
            attempt = Attempt(order.trial_id, order.attempt)
            reason = str(result.error)
            self.publish(TrialUnbuilt(**attempt._asdict(), worker_id=self.worker_id(), reason=reason))
            return
        self.publish(
            TrialOutcome(
                trial_id=order.trial_id,
                attempt=order.attempt,
                worker_id=self.worker_id(),
                outcome=result.outcome,
                error=result.error,
                stage_secs=dict(result.stage_secs),
                device_class=self.device_class,
                tvm_version=self.tvm_version,
            )
        )
        with self._lock:
            self._stage_secs.update(result.stage_secs)
