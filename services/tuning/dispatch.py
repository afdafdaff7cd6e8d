"""Keeps the devices' queues fed and short: which chunk goes next, committed first, then sent.

Order and fairness are decided here, on rows. A message that is lost, or sent twice, changes nothing: the
attempt on the row fences it, and the reconciler rings again.
"""

import base64
import secrets
import statistics
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlalchemy import Engine
from sqlalchemy.orm import Session

from db import attempts, publishing, searches
from db.attempts import TakenTrial
from db.rounds import OpenTrials
from db.searches import Lease, Module, Search
from db.session import transaction
from db.states import JobState, Purpose, SearchState, TrialState, WorkerRole
from services.tuning.ending import baseline_closed
from services.tuning.errors import LeaseLostError
from services.tuning.settings import TunerSettings
from services.tuning.snapshot import Snapshot
from workers.messages import Built, MeasureChunk, MeasurePolicy, TrialOrder

#: Baselines and confirmations are few and others wait for them.
_ORDER = {Purpose.BASELINE: 0, Purpose.CONFIRM: 1, Purpose.SEARCH: 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """Queued trials of one job, search and purpose."""

    search_id: int
    target_id: int
    job_id: str
    purpose: Purpose
    priority: int
    count: int
    #: Whose device-seconds they take.
    owner: str = ""
    #: A build worker has built them.
    built: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One chunk to take: at most `limit` trials of this kind."""

    waiting: Waiting
    limit: int


@dataclass(slots=True, kw_only=True)
class Fairness:
    """Among equals the job goes first whose last chunk lies furthest back; forgotten at a restart."""

    turns: Counter[str] = field(default_factory=Counter)
    turn: int = 0

    def count(self, job_id: str) -> None:
        self.turn += 1
        self.turns[job_id] = self.turn

    def keep(self, job_ids: Collection[str]) -> None:
        for job_id in set(self.turns) - set(job_ids):
            del self.turns[job_id]


def chunk_size(stage_secs: Sequence[Mapping[str, float]], settings: TunerSettings) -> int:
    """So many trials as fill `chunk_secs`, by the target's newest search trials.

    Time spent waiting for the device is not a trial's own, and one slow trial says little of the others. Not
    below `chunk_size_min`: a worker builds the trials of a chunk side by side.
    """
    secs = [_own_secs(stages) for stages in stage_secs]
    if not any(secs):
        return settings.chunk_size
    size = round(settings.chunk_secs / max(statistics.median(secs), 1e-3))
    return max(settings.chunk_size_min, min(settings.chunk_size_max, size))


def chunk_limit(size: int, *, work: int, devices: int, settings: TunerSettings) -> int:
    """Trials of a chunk where little work is shared by several devices: none holds what another waits for."""
    if devices <= 1:
        return size
    even = -(-work // (devices * settings.chunks_per_device))
    return min(size, max(settings.chunk_size_min, even))


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """What is known of a target's newest trials."""

    #: Trials of a chunk.
    size: int
    #: Of a device, for one trial.
    trial_secs: float


def pace(stage_secs: Sequence[Mapping[str, float]], settings: TunerSettings) -> Pace:
    size = chunk_size(stage_secs, settings)
    secs = [own for stages in stage_secs if (own := device_secs(stages))]
    return Pace(size=size, trial_secs=statistics.median(secs) if secs else settings.chunk_secs / size)


def device_secs(stages: Mapping[str, float]) -> float:
    """What a trial took of whoever worked on it: its stages without the waiting."""
    return _own_secs(stages)


def _own_secs(stages: Mapping[str, float]) -> float:
    return sum(secs for stage, secs in stages.items() if stage != "wait")


def waiting(snapshot: Snapshot, leased: Collection[int]) -> list[Waiting]:
    """Queued trials that may go to a device now."""
    jobs = {task.job_id: task for task in snapshot.tasks if task.runs}
    counts: Counter[tuple[int, str, Purpose, bool]] = Counter()
    for kind in snapshot.open_trials:
        # What only a newer release knows how to measure is left to its replicas.
        known = kind.purpose in _ORDER
        dispatchable = known and kind.state is TrialState.QUEUED and kind.job_state is JobState.RUNNING
        if dispatchable and kind.search_id in leased and kind.job_id in jobs and _may_go(snapshot, kind):
            counts[kind.search_id, kind.job_id, kind.purpose, kind.built] += kind.count
    return [
        Waiting(
            search_id=search_id,
            target_id=snapshot.searches[search_id].target_id,
            job_id=job_id,
            purpose=purpose,
            priority=jobs[job_id].priority,
            count=count,
            owner=jobs[job_id].owner,
            built=built,
        )
        for (search_id, job_id, purpose, built), count in counts.items()
    ]


def next_chunk(
    queued: Sequence[Waiting],
    *,
    room: int,
    size: int,
    dispatched: Mapping[str, int],
    fairness: Fairness,
    standing: Callable[[str], float] = lambda _owner: 0.0,
) -> Plan | None:
    """The chunk that goes next: of the owner who had least, urgent jobs first, the job with least under way.

    It goes whole, or not yet: results that come one by one would make room for chunks of one, and a device
    that is sent such has nothing to build side by side.
    """
    if not queued:
        return None
    chosen = min(
        queued,
        key=lambda kind: (
            standing(kind.owner),
            -kind.priority,
            dispatched.get(kind.job_id, 0),
            fairness.turns[kind.job_id],
            _ORDER[kind.purpose],
            kind.search_id,
        ),
    )
    whole = _even_share(chosen.count, size)
    return Plan(waiting=chosen, limit=whole) if room >= whole else None


def _even_share(count: int, size: int) -> int:
    """Of `count` trials in as few chunks of `size` as hold them: no small one is left over."""
    chunks = -(-count // size)
    return -(-count // chunks)


def rest(kind: Waiting, taken: int) -> Waiting:
    """What still waits after a chunk was taken."""
    return replace(kind, count=kind.count - taken)


def take_chunk(
    engine: Engine,
    lease: Lease,
    search: Search,
    plan: Plan,
    deadline_secs: float,
    *,
    module: Module,
    role: WorkerRole = WorkerRole.BOTH,
) -> MeasureChunk | None:
    """Commit a chunk as dispatched to workers of a role; None where nothing of it was left to take."""
    chunk_id = secrets.token_hex(16)
    with transaction(engine) as session:
        if not searches.fence(session, lease):
            raise LeaseLostError(lease.search_id)
        taken = attempts.dispatch(
            session,
            search_id=search.id,
            job_id=plan.waiting.job_id,
            purpose=plan.waiting.purpose,
            limit=plan.limit,
            chunk_id=chunk_id,
            deadline_secs=deadline_secs,
            role=role,
        )
        if not taken:
            return None
        return _chunk(session, search, taken, chunk_id, module=module, job_id=plan.waiting.job_id, role=role)


def hand_back(engine: Engine, chunk: MeasureChunk) -> None:
    """A chunk that could not be sent waits in the queue again; if it was sent, its attempt is void."""
    with transaction(engine) as session:
        for order in chunk.trials:
            attempts.ring_again(session, order.trial_id, attempt=order.attempt)


def deadline_secs(
    policy: MeasurePolicy, *, ahead: int, size: int, devices: int, settings: TunerSettings
) -> float:
    """Until a chunk should be done, were each trial before it to use up its time limits."""
    trial_secs = policy.build_timeout_secs + policy.run_timeout_secs
    return settings.deadline_secs + trial_secs * (ahead / max(1, devices) + size)


def _may_go(snapshot: Snapshot, kind: OpenTrials) -> bool:
    """Candidates wait for the baseline: where no reference can be computed they are not measured at all."""
    if snapshot.searches[kind.search_id].state is SearchState.FAILED:
        return False
    return kind.purpose is Purpose.BASELINE or baseline_closed(snapshot.baselines.get(kind.search_id))


def _chunk(
    session: Session,
    search: Search,
    taken: Sequence[TakenTrial],
    chunk_id: str,
    *,
    module: Module,
    job_id: str,
    role: WorkerRole,
) -> MeasureChunk:
    named = {trial.incumbent_record_id for trial in taken if trial.incumbent_record_id is not None}
    incumbents = publishing.record_traces(session, named) if named else {}
    return MeasureChunk(
        chunk_id=chunk_id,
        search_id=search.id,
        job_id=job_id,
        target=dict(search.target),
        module=_packed(module.module_z),
        module_sha256=module.sha256,
        policy=MeasurePolicy.from_json(dict(search.policy)),
        trials=tuple(_order(trial, incumbents, role) for trial in taken),
        best_latency_secs=search.best_latency_secs or search.untuned_latency_secs,
    )


def _order(trial: TakenTrial, incumbents: Mapping[int, bytes], role: WorkerRole) -> TrialOrder:
    incumbent_z = None if trial.incumbent_record_id is None else incumbents.get(trial.incumbent_record_id)
    return TrialOrder(
        trial_id=trial.id,
        attempt=trial.attempt,
        task_id=trial.task_id,
        purpose=trial.purpose,
        trace=_packed(trial.trace_z),
        incumbent_trace=None if incumbent_z is None else _packed(incumbent_z),
        built=Built.from_json(dict(trial.built or {})) if role is WorkerRole.MEASURE else None,
    )


def _packed(text_z: bytes) -> str:
    """From a row's zlib to the message's base64 of it."""
    return base64.b64encode(text_z).decode()
