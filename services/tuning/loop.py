"""One tick after the other: intents, leases, rounds, ends, chunks, lost trials. The order is all it knows.

Each step on one search or job is isolated: its typed failure is logged and the others go on. A database that
is away ends the tick; main.py waits and tries again. Nothing in here waits for a child or for a worker.
"""

import time
import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace

import structlog
from sqlalchemy import Engine
from sqlalchemy.exc import DataError, IntegrityError, InvalidRequestError, OperationalError

from db import artifacts, fleet, progress, searches
from db.dispatched import dispatched_trials
from db.imports import IMPORTED
from db.progress import OpenTask
from db.searches import Search
from db.session import reading, transaction
from db.states import Purpose, SearchState, TrialState
from services.signing import Signer
from services.tuning import imports, intents, plan, reconcile, rounds, settle
from services.tuning.allocation import Allocation, Standing
from services.tuning.ending import is_ending, is_exhausted, reference_failure
from services.tuning.errors import FarmError, LeaseLostError, TuningError
from services.tuning.feed import Feeder, Send
from services.tuning.hunger import Hunger
from services.tuning.leases import Leases
from services.tuning.pulse import Pulse
from services.tuning.record import fitting_text
from services.tuning.revisions import Revisions
from services.tuning.search_host import SearchHost, Suggested
from services.tuning.settings import TunerSettings
from services.tuning.sightings import Sightings
from services.tuning.snapshot import Snapshot, look
from services.tuning.stages import Spent, timed, untold
from services.tuning.stopping import Stopping
from workers.messages import MAX_ERROR_CHARS, MessageError

_log = structlog.get_logger(__name__)

#: What one search or job may fail with without harm to others: typed errors, and rows that do not read.
_ISOLATED = (
    *(TuningError, MessageError, IntegrityError, DataError, InvalidRequestError),
    *(zlib.error, ValueError, KeyError, TypeError),
)
#: How often artifacts that nobody uses are looked for.
_DROP_EVERY_SECS = 60.0


class Tuner:
    """One replica of the tuner service. All it remembers can be rebuilt from rows."""

    def __init__(
        self,
        *,
        engine: Engine,
        leases: Leases,
        host: SearchHost,
        send: Send,
        revisions: Revisions,
        settings: TunerSettings,
        pulse: Pulse | None = None,
        signer: Signer | None = None,
    ) -> None:
        self._engine = engine
        self._leases = leases
        self._host = host
        self._revisions = revisions
        self._settings = settings
        self._signer = signer
        self._pulse = pulse or Pulse(tick_secs=settings.tick_secs)
        self._feeder = Feeder(
            engine=engine,
            leases=leases,
            send=send,
            revisions=revisions,
            settings=settings,
            sent=self._pulse.sent,
        )
        #: In time.monotonic(): when something may be tried again.
        self._not_before: dict[int, float] = {}
        self._reconciled_at = 0.0
        self._dropped_at = 0.0
        self._sightings = Sightings()
        self._stopping = Stopping(engine)
        #: Whether this tick has changed rows that the next one decides on.
        self._acted = False
        self._standing: Standing = {}
        #: By search, as it stood when it was last settled: nothing new, nothing to settle.
        self._settled: dict[int, object] = {}

    def start(self) -> None:
        """Watchers may have missed something while no replica ran."""
        self._revisions.changed({job.id for job in intents.open_jobs(self._engine)})

    def tick(self, spent: Spent = untold) -> bool:
        """True where it changed what the next tick decides on. `spent` is told the seconds of each part."""
        self._acted = False
        with timed(spent, "follow"):
            self._follow_intents()
            self._leases.keep()
        with timed(spent, "plan"):
            self._take_answers(spent)
        with timed(spent, "look"):
            snapshot = look(self._engine, self._leases, dead_after_secs=self._settings.dead_after_secs)
            snapshot = replace(snapshot, stopped=self._stopping.look(snapshot))
            self._pulse.look(under_way=snapshot.under_way)
        with timed(spent, "settle"):
            allocation = self._allocation(snapshot)
            for search_id in list(self._leases):
                with self._isolated(search_id):
                    self._tend(snapshot, snapshot.searches[search_id], allocation)
            self._standing = allocation.standing
        with timed(spent, "dispatch"):
            self._feeder.feed(snapshot, self._isolated)
        with timed(spent, "reconcile"):
            self._reconcile()
            self._drop_artifacts()
            self._raise_revisions()
            self._host.close_idle(self._leases)
            self._forget()
        return self._acted

    def _allocation(self, snapshot: Snapshot) -> Allocation:
        hunger = Hunger(
            snapshot=snapshot,
            asked=self._host.asked(),
            pace=self._feeder.pace,
            round_secs=self._host.round_secs,
            settings=self._settings,
        )
        return Allocation(
            engine=self._engine,
            snapshot=snapshot,
            busy=self._host.busy,
            hunger=hunger,
            settings=self._settings,
            stood=self._standing,
        )

    def close(self) -> None:
        """Children end, leases are free at once for another replica."""
        self._host.shut_down()
        self._leases.release_all()

    def _follow_intents(self) -> None:
        jobs = intents.open_jobs(self._engine)
        self._feeder.keep({job.id for job in jobs})
        for job in jobs:
            if intents.needs_change(job):
                with self._isolated(None):
                    intents.follow(self._engine, job)
                    self._acted = True

    def _take_answers(self, spent: Spent) -> None:
        for answer in self._host.answers():
            spent("search", answer.search_secs)
            if answer.search_id in self._leases:
                with self._isolated(answer.search_id):
                    self._take_answer(answer)

    def _take_answer(self, answer: Suggested) -> None:
        lease = self._leases[answer.search_id]
        if answer.failure is not None:
            self._count_failure(answer)
            return
        planned = plan.add_round(self._engine, lease, answer, empty_rounds=self._settings.empty_rounds)
        if planned.unpaid:
            self._host.close(answer.search_id)
        self._revisions.changed(planned.jobs)
        _log.info(
            "round_planned",
            search_id=answer.search_id,
            round=answer.round,
            suggested=len(answer.candidates),
            inserted=planned.inserted,
            exhausted=answer.exhausted,
            learnt_round=answer.learnt_round,
            search_secs=round(answer.search_secs, 3),
        )

    def _count_failure(self, answer: Suggested) -> None:
        """A child's death counts against its search; a fork server's does not."""
        search_id, reason = answer.search_id, fitting_text(str(answer.failure), MAX_ERROR_CHARS)
        self._not_before[search_id] = time.monotonic() + 1.0
        if isinstance(answer.failure, FarmError):
            _log.error("no_search_child", search_id=search_id, reason=reason)
            return
        with transaction(self._engine) as session:
            crashes = searches.count_crash(session, self._leases[search_id], error=reason)
            tasks = [task for task in progress.open_tasks(session, [search_id]) if task.runs]
        if crashes is None:
            raise LeaseLostError(search_id)
        _log.warning("search_child_failed", search_id=search_id, crashes=crashes, reason=reason)
        if crashes >= self._settings.max_crashes:
            self._fail(search_id, tasks, reason)

    def _tend(self, snapshot: Snapshot, search: Search, allocation: Allocation) -> None:
        """What one search needs now: a baseline, candidates, a decision on what it found, or its end."""
        tasks = [task for task in snapshot.tasks_of(search.id) if task.runs]
        if not tasks:
            return
        baseline = snapshot.baselines.get(search.id)
        reason = reference_failure(baseline)
        if search.state is SearchState.FAILED or reason is not None:
            self._fail(search.id, tasks, reason or search.error or "it failed before")
            return
        if baseline is None or baseline.state is TrialState.CANCELLED:
            plan.add_baseline(self._engine, self._leases[search.id], tasks[0])
            self._acted = True
        self._ask(snapshot, search, allocation)
        self._settle(snapshot, search, tasks)

    def _fail(self, search_id: int, tasks: Collection[OpenTask], reason: str) -> None:
        settle.fail(self._engine, self._leases[search_id], list(tasks), error=reason)
        self._host.close(search_id)

    def _ask(self, snapshot: Snapshot, search: Search, allocation: Allocation) -> None:
        if self._host.busy(search.id) or time.monotonic() < self._not_before.get(search.id, 0.0):
            return
        if not allocation.wants(search):
            return
        if search.strategy == IMPORTED and not snapshot.cancelled.get(search.id):
            ids = {task.id for task in snapshot.tasks_of(search.id) if task.runs}
            imports.add_imports(self._engine, self._leases[search.id], payers=ids)
            return
        payers = allocation.payers(search)
        count = len(rounds.share(payers, allocation.batch_limit(search, payers)))
        if not count:
            return
        ids = {task.id for task in payers}
        if snapshot.cancelled.get(search.id):
            plan.take_over_cancelled(self._engine, self._leases[search.id], payers=ids, limit=count)
        else:
            learnt = rounds.learnt_round(search, snapshot.open_trials)
            if self._host.ask(search, round_=search.rounds, learnt_round=learnt, count=count, payers=ids):
                allocation.asked(search, count)

    def _settle(self, snapshot: Snapshot, search: Search, tasks: list[OpenTask]) -> None:
        ending = [task.id for task in tasks if is_ending(snapshot, task)]
        confirming = sum(kind.count for kind in snapshot.open_of(search.id, Purpose.CONFIRM))
        state = (tuple(ending), rounds.learnt_round(search, snapshot.open_trials), confirming)
        if self._settled.get(search.id) == state:
            return
        settling = settle.Settling(
            lease=self._leases[search.id],
            search=search,
            tasks=tasks,
            ending=ending,
            exhausted=is_exhausted(snapshot, search),
            stopped=snapshot.stopped,
        )
        decision = settle.look_first(self._engine, settling, self._settings)
        if decision.publish or decision.confirm or (decision.settled and ending):
            settle.settle(self._engine, settling, self._settings, signer=self._signer)
            self._revisions.changed({task.job_id for task in tasks})
            self._acted = True
        else:
            self._settled[search.id] = state

    def _reconcile(self) -> None:
        if time.monotonic() - self._reconciled_at < self._settings.reconcile_secs:
            return
        self._reconciled_at = time.monotonic()
        with reading(self._engine) as session:
            under_way = dispatched_trials(session, tended_by=self._leases.owner)
            workers = fleet.read_fleet(session, dead_after_secs=self._settings.dead_after_secs)
        holders = reconcile.Holders(workers)
        unheld = [trial for trial in under_way if not holders.hold(trial)]
        self._sightings.look(unheld, workers, now=time.monotonic())
        for trial in unheld:
            seen = self._sightings.of(trial)
            verdict = reconcile.judge(trial, holders, self._settings, seen)
            if verdict is not reconcile.Verdict.KEEP:
                with self._isolated(trial.search_id):
                    done = reconcile.carry_out(self._engine, trial, verdict, seen)
                    if done and verdict is reconcile.Verdict.RING_UNCOUNTED:
                        self._sightings.note_let_go(trial)
                    elif done:
                        self._sightings.note_lost(trial)
                    self._revisions.changed({trial.job_id})

    def _drop_artifacts(self) -> None:
        """What nobody asked for lately; it is made anew where somebody does."""
        if time.monotonic() - self._dropped_at < _DROP_EVERY_SECS:
            return
        self._dropped_at = time.monotonic()
        with transaction(self._engine) as session:
            artifacts.drop_artifacts(session, unused_secs=self._settings.artifact_secs)

    def _raise_revisions(self) -> None:
        due = self._revisions.due()
        if not due:
            return
        try:
            with transaction(self._engine) as session:
                progress.raise_revisions(session, due)
        except OperationalError:
            self._revisions.changed(due)
            raise

    def _forget(self) -> None:
        """What is known of searches that this replica no longer leases."""
        for remembered in (self._not_before, self._settled):
            for search_id in remembered.keys() - self._leases.keys():
                del remembered[search_id]

    @contextmanager
    def _isolated(self, search_id: int | None) -> Iterator[None]:
        try:
            yield
        except LeaseLostError as error:
            _log.warning("lease_lost", search_id=error.search_id)
            self._leases.forget(error.search_id)
            self._host.close(error.search_id)
        except _ISOLATED as error:
            _log.exception("step_failed", search_id=search_id, reason=str(error))
