"""Keeps every target's queues fed: which lane has room, whose chunk goes next, committed first, then sent.

It decides nothing itself: rooms are lanes.py's, the order dispatch.py's, shares of owners shares.py's. All it
remembers is forgotten at a restart without harm.
"""

import time
from collections import Counter
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager

import structlog
from sqlalchemy import Engine

from db import shares as db_shares
from db.dispatched import recent_stage_secs
from db.session import reading
from db.states import TrialState, WorkerRole
from services.tuning import dispatch
from services.tuning.dispatch import Fairness, Plan, Waiting
from services.tuning.errors import BrokerError
from services.tuning.lanes import Lane, lanes
from services.tuning.leases import Leases
from services.tuning.modules import Modules
from services.tuning.revisions import Revisions
from services.tuning.settings import TunerSettings
from services.tuning.shares import Shares
from services.tuning.snapshot import Snapshot
from workers.messages import MeasureChunk, MeasurePolicy

_log = structlog.get_logger(__name__)

Send = Callable[[MeasureChunk, str, WorkerRole], None]
#: How often what is known of a target's pace is computed anew.
_PACE_SECS = 2.0
_RECENT_TRIALS = 50


class Feeder:
    """Of one replica."""

    def __init__(
        self,
        *,
        engine: Engine,
        leases: Leases,
        send: Send,
        revisions: Revisions,
        settings: TunerSettings,
        sent: Callable[[int], None],
    ) -> None:
        """`sent` is told how many trials went."""
        self._engine = engine
        self._leases = leases
        self._send = send
        self._revisions = revisions
        self._settings = settings
        self._sent = sent
        self._modules = Modules(engine)
        self._fairness = Fairness()
        #: In time.monotonic(): when the broker may be tried again.
        self._broker_back_at = 0.0
        self._paces: dict[int, tuple[float, dispatch.Pace]] = {}

    def keep(self, job_ids: Collection[str]) -> None:
        """Forget the turns of all other jobs."""
        self._fairness.keep(job_ids)

    def feed(
        self, snapshot: Snapshot, isolated: Callable[[int | None], AbstractContextManager[None]]
    ) -> None:
        """Send what there is room for; `isolated` keeps one search's failure from the others."""
        if not self._may_send():
            return
        queued = dispatch.waiting(snapshot, self._leases)
        targets = {kind.target_id for kind in queued}
        if not targets:
            return
        with reading(self._engine) as session:
            used, weights = db_shares.read_usage(session, targets), db_shares.read_weights(session)
        for target_id in sorted(targets):
            pace = self.pace(target_id)
            shares = Shares(used_secs=used.get(target_id, {}), weights=weights, trial_secs=pace.trial_secs)
            mine = [kind for kind in queued if kind.target_id == target_id]
            self._feed(snapshot, target_id, mine, pace.size, shares, isolated)

    def _feed(
        self,
        snapshot: Snapshot,
        target_id: int,
        queued: list[Waiting],
        size: int,
        shares: Shares,
        isolated: Callable[[int | None], AbstractContextManager[None]],
    ) -> None:
        out = snapshot.outstanding.get(target_id, {})
        work = sum(kind.count for kind in queued) + sum(out.values())
        size = dispatch.chunk_limit(
            size, work=work, devices=snapshot.devices(target_id), settings=self._settings
        )
        by_job = _dispatched(snapshot)
        by_owner = Counter(snapshot.owners_out.get(target_id, {}))
        found = lanes(
            snapshot.crew(target_id),
            out,
            built_waiting=sum(kind.count for kind in queued if kind.built),
            size=size,
            settings=self._settings,
        )
        for lane in found:
            room = lane.room
            offered = [kind for kind in queued if lane.takes(built=kind.built)]
            while offered and self._may_send():
                chosen = dispatch.next_chunk(
                    offered,
                    room=room,
                    size=size,
                    dispatched=by_job,
                    fairness=self._fairness,
                    standing=lambda owner: shares.standing(owner, by_owner[owner]),
                )
                if chosen is None:
                    break
                kind = chosen.waiting
                offered.remove(kind)
                queued.remove(kind)
                self._fairness.count(kind.job_id)
                with isolated(kind.search_id):
                    taken = self._send_chunk(snapshot, chosen, lane, ahead=lane.room - room)
                    room -= taken
                    by_job[kind.job_id] += taken
                    by_owner[kind.owner] += taken
                    if taken and kind.count > taken:
                        offered.append(dispatch.rest(kind, taken))
                        queued.append(dispatch.rest(kind, taken))

    def _send_chunk(self, snapshot: Snapshot, chosen: Plan, lane: Lane, *, ahead: int) -> int:
        """Commit, then send; how many trials went."""
        search = snapshot.searches[chosen.waiting.search_id]
        under_way = snapshot.outstanding.get(search.target_id, {}).get(lane.role, 0)
        secs = dispatch.deadline_secs(
            MeasurePolicy.from_json(dict(search.policy)),
            ahead=under_way + ahead,
            size=chosen.limit,
            devices=lane.workers,
            settings=self._settings,
        )
        lease, module = self._leases[search.id], self._modules.of(search.workload_id)
        chunk = dispatch.take_chunk(self._engine, lease, search, chosen, secs, module=module, role=lane.role)
        if chunk is None:
            return 0
        try:
            self._send(chunk, search.target_key, lane.role)
        except BrokerError:
            self._broker_back_at = time.monotonic() + self._settings.broker_retry_secs
            dispatch.hand_back(self._engine, chunk)
            raise
        _log_sent(chunk, lane.role)
        self._sent(len(chunk.trials))
        self._revisions.changed({chosen.waiting.job_id})
        return len(chunk.trials)

    def _may_send(self) -> bool:
        return time.monotonic() >= self._broker_back_at

    def pace(self, target_id: int) -> dispatch.Pace:
        """What is known of a target's newest trials; at most two seconds old."""
        computed_at, pace = self._paces.get(target_id, (0.0, None))
        if pace is None or time.monotonic() - computed_at > _PACE_SECS:
            with reading(self._engine) as session:
                recent = recent_stage_secs(session, target_id, limit=_RECENT_TRIALS)
            pace = dispatch.pace(recent, self._settings)
            self._paces[target_id] = (time.monotonic(), pace)
        return pace


def _log_sent(chunk: MeasureChunk, role: WorkerRole) -> None:
    log = _log.bind(job_id=chunk.job_id, search_id=chunk.search_id, chunk_id=chunk.chunk_id, role=role)
    for order in chunk.trials:
        log.info("trial_sent", trial_id=order.trial_id, attempt=order.attempt, task_id=order.task_id)


def _dispatched(snapshot: Snapshot) -> Counter[str]:
    """By job: trials under way."""
    found = Counter[str]()
    for kind in snapshot.open_trials:
        if kind.state is TrialState.DISPATCHED:
            found[kind.job_id] += kind.count
    return found
