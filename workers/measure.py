"""A chunk of trials on one device: builds side by side, measurements one at a time, outcomes as they come.

Pure of Celery and HTTP: outcomes leave through `publish`. A trial that was dropped publishes nothing. Where
the target uses all of the device's cores, builds and measurements take turns; else the next trials are
built while one is measured.
"""

import dataclasses
import threading
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from db.states import Outcome, Purpose
from sandbox.fork_server import ForkServer
from workers.artifacts import ArtifactStore, artifact_key
from workers.build_limit import BuildTimes
from workers.cores import Cores, divide
from workers.device import Device
from workers.disk import await_space, says_full
from workers.endings import Endings
from workers.errors import ArtifactLost, ArtifactRefused, ArtifactUnwanted, DeviceUnwanted, ReferenceFailed
from workers.fetched import FetchedKernels, FetchedReferences
from workers.holding import Attempt, Holding
from workers.messages import (
    MAX_ERROR_CHARS,
    REFERENCE_ERROR,
    MeasureChunk,
    MessageError,
    Result,
    TrialOrder,
    TrialOutcome,
    TrialStarted,
    TrialUnbuilt,
    checked_module,
    unpack_text,
)
from workers.plan import Planned, Tally, plan
from workers.reference import ReferenceCache
from workers.shot import Shot, ShotResult, Token
from workers.tries import Tries

Publish = Callable[[Result], None]


@dataclass(slots=True, kw_only=True)
class Measurer:
    """Measures chunks, one at a time."""

    server: ForkServer
    device: Device
    references: ReferenceCache | FetchedReferences
    #: Where a kernel may be without being built; FetchedKernels: it must be.
    artifacts: ArtifactStore | FetchedKernels
    holding: Holding
    #: The linker's path; None: code is loaded in process.
    linker: str | None
    tvm_version: str
    worker_id: Callable[[], str]
    #: Called from several threads.
    publish: Publish
    #: Canonical dict of the host's CPU: references are computed there, where another device is timed on.
    own_target: dict[str, Any] | None = None
    #: Built children that may wait for the device.
    max_waiting: int = 32
    build_times: BuildTimes = field(default_factory=BuildTimes)
    _stage_secs: Counter[str] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def stage_secs(self) -> dict[str, float]:
        """Seconds by stage since the start, over all children."""
        with self._lock:
            return dict(self._stage_secs)

    def run(self, chunk: MeasureChunk) -> None:
        """Measure every trial of the chunk that is not dropped meanwhile.

        Raises MessageError where the chunk does not read, SandboxError where the farm itself fails.
        """
        module_text = checked_module(chunk)
        attempts = [Attempt(order.trial_id, order.attempt) for order in chunk.trials]
        self.holding.take(attempts)
        try:
            await_space(self.artifacts.directory, given_up=lambda: all(map(self.holding.dropped, attempts)))
            with self.references.get(
                self._for_reference(chunk), module_text, holding=self.holding, attempts=attempts
            ) as reference:
                _Run(measurer=self, chunk=chunk, module_text=module_text, reference=reference).run()
        except ReferenceFailed as error:
            self._fail_all(chunk.trials, str(error))
        except ArtifactLost as error:
            for order in chunk.trials:
                self.give_back(order, str(error))
        finally:
            self.holding.release(attempts)

    def _for_reference(self, chunk: MeasureChunk) -> MeasureChunk:
        if self.own_target is None or chunk.target["kind"] == "llvm":
            return chunk
        return dataclasses.replace(chunk, target=self.own_target)

    def announce(self, attempt: Attempt) -> None:
        self.publish(
            TrialStarted(trial_id=attempt.trial_id, attempt=attempt.attempt, worker_id=self.worker_id())
        )

    def give_back(self, order: TrialOrder, reason: str) -> None:
        """What was built of it is gone, or could not be written: it is built again."""
        attempt = Attempt(order.trial_id, order.attempt)
        if not self.holding.dropped(attempt):
            self.publish(TrialUnbuilt(**attempt._asdict(), worker_id=self.worker_id(), reason=reason))
            self.holding.drop([attempt])

    def report(
        self,
        order: TrialOrder,
        result: ShotResult,
        *,
        incumbent_run_secs: tuple[float, ...] | None = None,
    ) -> None:
        if says_full(result.error):
            self.give_back(order, str(result.error))
            return
        self.publish(
            TrialOutcome(
                trial_id=order.trial_id,
                attempt=order.attempt,
                worker_id=self.worker_id(),
                outcome=result.outcome,
                run_secs=result.run_secs,
                incumbent_run_secs=incumbent_run_secs,
                error=result.error,
                stage_secs=dict(result.stage_secs),
                device_class=self.device.device_class,
                tvm_version=self.tvm_version,
            )
        )
        with self._lock:
            self._stage_secs.update(result.stage_secs)

    def _fail_all(self, orders: tuple[TrialOrder, ...], reason: str) -> None:
        result = ShotResult(outcome=Outcome.REJECTED, error=f"{REFERENCE_ERROR} {reason}"[:MAX_ERROR_CHARS])
        for order in orders:
            if not self.holding.dropped(Attempt(order.trial_id, order.attempt)):
                self.report(order, result)


@dataclass(slots=True, kw_only=True)
class _Run:
    """One chunk under way."""

    measurer: Measurer
    chunk: MeasureChunk
    module_text: str
    reference: Path
    #: Of the chunk's search; falls as its trials come in.
    best_secs: float | None = None
    tallies: dict[Attempt, Tally] = field(default_factory=dict)
    _waiting: deque[tuple[Planned, Shot, Tries]] = field(default_factory=deque)

    def run(self) -> None:
        self.best_secs = self.chunk.best_latency_secs
        with closing(self._built()) as built, Endings(self._conclude) as endings:
            for planned, shot in built:
                tally = self.tallies.setdefault(planned.attempt, Tally())
                try:
                    if tally.failure is None:
                        self._measure(planned, shot)
                except BaseException:
                    shot.close()
                    raise
                endings.add(planned, shot, wait=not planned.last)

    def _conclude(self, planned: Planned, shot: Shot) -> None:
        """Count a shot that has ended, and report its trial after the last one."""
        if self.measurer.holding.dropped(planned.attempt):
            return
        tally = self.tallies[planned.attempt]
        if shot.result is not None:
            tally.add(planned, shot.result)
        if planned.last:
            result, incumbent_run_secs = tally.conclude()
            self.measurer.report(planned.order, result, incumbent_run_secs=incumbent_run_secs)
            self.measurer.holding.release([planned.attempt])

    def _built(self) -> Generator[tuple[Planned, Shot], None, None]:
        """Shots in order, each built or failed; at most `max_waiting` are ahead of the one yielded."""
        plans = plan(self.chunk)
        ahead = self.measurer.max_waiting
        with ThreadPoolExecutor(len(self._cores.build_cpus), thread_name_prefix="build") as pool:
            try:
                self._start(pool, plans, ahead)
                while self._waiting:
                    if self._cores.takes_turns:
                        for _, _, tries in self._waiting:
                            tries.result()
                    planned, shot, tries = self._waiting[0]
                    tries.result()
                    yield planned, shot
                    self._waiting.popleft()
                    if not self._cores.takes_turns:
                        self._start(pool, plans, 1)
                    elif not self._waiting:
                        self._start(pool, plans, ahead)
            finally:
                for _, shot, tries in self._waiting:
                    tries.end()
                    shot.close()

    def _start(self, pool: ThreadPoolExecutor, plans: Iterator[Planned], count: int) -> None:
        for planned in islice(plans, count):
            shot = Shot(
                server=self.measurer.server,
                holding=self.measurer.holding,
                attempt=planned.attempt,
                policy=self.chunk.policy,
                device=self.measurer.device,
            )
            tries = Tries(pool, partial(self._try, planned, shot), partial(self._try_again, planned, shot))
            self._waiting.append((planned, shot, tries))

    def _try(self, planned: Planned, shot: Shot) -> bool:
        """Build for the first time; True where it is to be tried again."""
        if planned.order.purpose != Purpose.SEARCH:
            self._build(planned, shot, self.chunk.policy.build_timeout_secs)
            return False
        times, search_id, policy = self.measurer.build_times, self.chunk.search_id, self.chunk.policy
        limit = times.first_limit(search_id, policy)
        self._build(planned, shot, limit.secs)
        ended = shot.result is None or shot.result.outcome != Outcome.BUILD_TIMEOUT
        return limit.provisional and not ended

    def _try_again(self, planned: Planned, shot: Shot) -> None:
        """The others of the chunk were tried meanwhile."""
        times, search_id, policy = self.measurer.build_times, self.chunk.search_id, self.chunk.policy
        limit_secs = times.limit_secs(search_id, policy)
        if shot.limit_secs is not None and limit_secs > shot.limit_secs:
            shot.try_again()
            self._build(planned, shot, limit_secs)

    def _build(self, planned: Planned, shot: Shot, limit_secs: float) -> None:
        tally = self.tallies.get(planned.attempt)
        failed = tally is not None and tally.failure is not None
        if failed or self.measurer.holding.dropped(planned.attempt):
            return
        library = self._fetch(planned)
        if self.measurer.holding.dropped(planned.attempt):
            return
        if planned.first and shot.limit_secs is None:
            self.measurer.announce(planned.attempt)
        try:
            trace = unpack_text(planned.trace)
        except MessageError as error:
            shot.result = ShotResult(outcome=Outcome.REJECTED, error=str(error))
            return
        order = {
            "module": self.module_text,
            "trace": trace,
            "target": self.chunk.target,
            "policy": dataclasses.asdict(self.chunk.policy),
            "linker": self.measurer.linker,
            "reference": str(self.reference),
        }
        shot.build(
            order,
            cpus=self._cores.build_cpus,
            threads=self._cores.threads,
            artifacts=self.measurer.artifacts,
            artifact=library or artifact_key(order, tvm_version=self.measurer.tvm_version),
            limit_secs=limit_secs,
        )
        if planned.order.purpose == Purpose.SEARCH and shot.build_secs is not None:
            self.measurer.build_times.add(self.chunk.search_id, shot.build_secs)

    def _fetch(self, planned: Planned) -> str | None:
        """What a worker that only measures has from others: the kernel's name, once it is here."""
        kernels, order = self.measurer.artifacts, planned.order
        if not isinstance(kernels, FetchedKernels):
            return None
        try:
            if order.built is None:
                raise ArtifactLost("nothing was built for it")  # noqa: TRY301 - as where the API has it no more
            name = order.built.incumbent if planned.incumbent else order.built.kernel
            kernels.fetch(name or "", unwanted=lambda: self.measurer.holding.dropped(planned.attempt))
        except ArtifactUnwanted:
            return None
        except (ArtifactLost, ArtifactRefused) as error:
            self.measurer.give_back(order, str(error))
            return None
        return name

    def _measure(self, planned: Planned, shot: Shot) -> None:
        device = self.measurer.device
        searching = planned.order.purpose == Purpose.SEARCH
        token = Token(
            cpus=self._cores.measure_cpus,
            best_latency_secs=self._best_secs() if searching else None,
        )
        try:
            with device.exclusive(given_up=lambda: self.measurer.holding.dropped(planned.attempt)):
                shot.measure(token)
                if device.gpu is not None:
                    # What a killed process has started there runs on until its context is gone.
                    shot.close()
        except DeviceUnwanted:
            return
        result = shot.result
        if searching and result is not None and result.outcome == Outcome.OK and result.run_secs:
            latency_secs = sorted(result.run_secs)[len(result.run_secs) // 2]
            self.best_secs = latency_secs if self.best_secs is None else min(latency_secs, self.best_secs)

    def _best_secs(self) -> float | None:
        """The least of what the chunk came with, what it has measured, and what the farm has told since."""
        known = (self.best_secs, self.measurer.holding.best_of(self.chunk.search_id))
        return min((secs for secs in known if secs is not None), default=None)

    @property
    def _cores(self) -> Cores:
        return divide(self.chunk.target, self.measurer.device.cpus)
