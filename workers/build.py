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
from workers.build_limit import BuildLimit, BuildTimes
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
from workers.tries import Tries

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
            trials = [
                _Trial(builder=self, chunk=chunk, order=order, module_text=module_text, reference=reference)
                for order in chunk.trials
            ]
            with ThreadPoolExecutor(len(self.cpus), thread_name_prefix="build") as pool:
                under_way = [Tries(pool, trial.first, trial.again) for trial in trials]
                for tries in under_way:
                    tries.result()
        except ReferenceFailed as error:
            text = f"{REFERENCE_ERROR} {error}"[:MAX_ERROR_CHARS]
            for order in chunk.trials:
                self.report(order, ShotResult(outcome=Outcome.REJECTED, error=text))
        except ArtifactUnwanted as error:
            _log.info("chunk_unwanted", chunk_id=chunk.chunk_id, reason=str(error))
        finally:
            self.holding.release(attempts)

    def _reference(self, chunk: MeasureChunk, module_text: str, attempts: list[Attempt]) -> str:
        """The reference's name at the API, computed and sent where that has not happened."""
        own = dataclasses.replace(chunk, target=self.own_target)
        with self.references.get(own, module_text, holding=self.holding, attempts=attempts) as place:
            packed = pack_reference(place)
        try:
            return self.client.send(
                packed,
                ask=any(order.attempt > 1 for order in chunk.trials),
                unwanted=lambda: all(self.holding.dropped(attempt) for attempt in attempts),
            )
        except ArtifactRefused as error:
            raise ReferenceFailed(f"it cannot travel to the device: {error}") from error

    def report_built(self, order: TrialOrder, built: Built, spent: Counter[str]) -> None:
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

    def report(self, order: TrialOrder, result: ShotResult) -> None:
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


@dataclass(slots=True, kw_only=True)
class _Trial:
    """One trial of a chunk, from its order to what is told of it."""

    builder: Builder
    chunk: MeasureChunk
    order: TrialOrder
    module_text: str
    #: Its name at the API.
    reference: str
    #: Of the first try, and what it came to where that may be too short.
    _limit_secs: float = 0.0
    _too_long: ShotResult | None = None
    _spent: Counter[str] = field(default_factory=Counter)

    def first(self) -> bool:
        """Build it and tell of it; True where that was too short to say."""
        builder, policy = self.builder, self.chunk.policy
        if self._dropped():
            return False
        builder.publish(TrialStarted(**self._attempt._asdict(), worker_id=builder.worker_id()))
        limit = (
            builder.build_times.first_limit(self.chunk.search_id, policy)
            if self._searching
            else BuildLimit(secs=policy.build_timeout_secs, provisional=False)
        )
        self._limit_secs = limit.secs
        made = self._built(limit.secs)
        if limit.provisional and isinstance(made, ShotResult) and made.outcome == Outcome.BUILD_TIMEOUT:
            self._too_long = made
            return True
        self._tell(made)
        return False

    def again(self) -> None:
        """The others of the chunk were tried meanwhile."""
        secs = self.builder.build_times.limit_secs(self.chunk.search_id, self.chunk.policy)
        self._tell(self._built(secs) if secs > self._limit_secs else self._too_long)

    def _tell(self, made: Built | ShotResult | None) -> None:
        if isinstance(made, Built):
            self.builder.report_built(self.order, made, self._spent)
        elif made is not None:
            self.builder.report(self.order, made)
        self.builder.holding.release([self._attempt])

    def _built(self, limit_secs: float) -> Built | ShotResult | None:
        """What the API keeps of it now, or how its build failed; None where it was dropped."""
        names: list[str] = []
        try:
            for packed in (self.order.trace, self.order.incumbent_trace):
                if packed is None:
                    continue
                made = self._library(packed, limit_secs)
                if not isinstance(made, bytes):
                    return made
                names.append(
                    self.builder.client.send(made, unwanted=self._dropped, ask=self.order.attempt > 1)
                )
        except ArtifactRefused as error:
            return ShotResult(outcome=Outcome.BUILD_ERROR, error=str(error), stage_secs=self._spent)
        except ArtifactUnwanted:
            return None
        return Built(
            kernel=names[0], incumbent=names[1] if len(names) > 1 else None, reference=self.reference
        )

    def _library(self, packed: str, limit_secs: float) -> bytes | ShotResult | None:
        """The linked kernel, or how its build failed; None where it was dropped."""
        builder = self.builder
        try:
            trace = unpack_text(packed)
        except MessageError as error:
            return ShotResult(outcome=Outcome.REJECTED, error=str(error))
        order = {
            "module": self.module_text,
            "trace": trace,
            "target": self.chunk.target,
            "linker": builder.linker,
        }
        key = artifact_key(order, tvm_version=builder.tvm_version)
        known = builder.artifacts.get(key)
        if known is not None:
            return known
        shot = Shot(
            server=builder.server,
            holding=builder.holding,
            attempt=self._attempt,
            policy=self.chunk.policy,
            entry=_ENTRY,
        )
        try:
            shot.build(
                order,
                cpus=builder.cpus,
                threads=1,
                artifacts=builder.artifacts,
                artifact=key,
                limit_secs=limit_secs,
            )
        finally:
            shot.close()
        self._spent.update(shot.stage_secs)
        if shot.result is not None or self._dropped():
            return shot.result
        if self._searching and shot.build_secs is not None:
            builder.build_times.add(self.chunk.search_id, shot.build_secs)
        library = builder.artifacts.get(key)
        if library is None:
            raise WorkerError(
                f"a kernel was built and is not there: {builder.artifacts.directory} takes none"
            )
        return library

    @property
    def _attempt(self) -> Attempt:
        return Attempt(self.order.trial_id, self.order.attempt)

    @property
    def _searching(self) -> bool:
        return self.order.purpose == Purpose.SEARCH

    def _dropped(self) -> bool:
        return self.builder.holding.dropped(self._attempt)
