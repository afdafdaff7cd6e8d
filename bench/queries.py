"""The queries that pages, lookups, leases and ticks ask, by name, on a generated database, and their plans.

The queries are the product's own functions: what they ask is caught on its way to the server and explained.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Engine, event, select, text
from sqlalchemy.orm import Session

from db import (
    attempts,
    counts,
    curves,
    failures,
    jobs,
    load,
    progress,
    publishing,
    records,
    rounds,
    searches,
    tasks,
    thinning,
    trials_view,
)
from db.dispatched import dispatched_trials, outstanding, recent_stage_secs
from db.session import transaction
from db.states import JobState, Outcome, Purpose
from db.tables import SearchRow, TargetRow, TaskRow, TrialRow, WorkloadRow

#: A table of so many rows may not be read from end to end; of a smaller one that is often the best plan.
_MANY_ROWS = 5_000
#: Indexes that hold a few rows of a large table: reading one from end to end reads only those.
_PARTIAL = frozenset({"ix_trials_open", "ix_trials_improved"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Rows that the queries ask for: of the large search, which runs, and of an ordinary one that ended."""

    job_id: str
    task_id: int
    search_id: int
    target_id: int
    target_key: str
    ended_job_id: str
    ended_search_id: int
    ended_shashes: tuple[str, ...]
    running_ids: tuple[int, ...]
    middle_trial_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    name: str
    ask: Callable[[Session, Sample], object]
    #: It counts, sorts or searches rows of the whole farm, which no index makes few.
    counts_all: bool = False


def sample(session: Session) -> Sample:
    large = session.scalars(select(SearchRow).order_by(SearchRow.id.desc()).limit(1)).one()
    task = session.scalars(select(TaskRow).where(TaskRow.search_id == large.id)).one()
    ended = session.scalars(select(TaskRow).where(TaskRow.state == "succeeded").limit(1)).one()
    shashes = select(WorkloadRow.shash).order_by(WorkloadRow.id).limit(50)
    running = select(TaskRow.search_id).where(TaskRow.state == "running").limit(64)
    middle = select(TrialRow.id).where(TrialRow.job_id == task.job_id).order_by(TrialRow.id).offset(4000)
    return Sample(
        job_id=task.job_id,
        task_id=task.id,
        search_id=large.id,
        target_id=large.target_id,
        target_key=session.scalars(select(TargetRow.key).where(TargetRow.id == large.target_id)).one(),
        ended_job_id=ended.job_id,
        ended_search_id=ended.search_id,
        ended_shashes=tuple(session.scalars(shashes)),
        running_ids=tuple(session.scalars(running)),
        middle_trial_id=session.scalars(middle.limit(1)).one(),
    )


QUERIES = (
    Query(
        name="page of jobs, newest first",
        ask=lambda s, _: jobs.list_jobs(s, limit=50, after=None, owner=None),
    ),
    Query(
        name="page of jobs that run",
        ask=lambda s, _: jobs.list_jobs(s, limit=50, after=None, states=[JobState.RUNNING], owner=None),
    ),
    Query(
        name="page of an owner's jobs",
        ask=lambda s, _: jobs.list_jobs(s, limit=50, after=None, owner="owner-7"),
    ),
    Query(name="tasks of a job", ask=lambda s, x: tasks.tasks_of_jobs(s, [x.job_id])),
    Query(
        name="counts of a job with the large search",
        ask=lambda s, x: trials_view.counts_of_jobs(s, [x.job_id]),
    ),
    Query(
        name="page of a job's trials, newest first",
        ask=lambda s, x: trials_view.list_trials(s, x.job_id, limit=50, after_id=None),
    ),
    Query(
        name="page of a job's trials, in the middle",
        ask=lambda s, x: trials_view.list_trials(s, x.job_id, limit=50, after_id=x.middle_trial_id),
    ),
    Query(
        name="page of an old job's trials",
        ask=lambda s, x: trials_view.list_trials(s, x.ended_job_id, limit=50, after_id=None),
    ),
    Query(
        name="page of a task's failed trials",
        ask=lambda s, x: trials_view.list_trials(
            s, x.job_id, limit=50, after_id=None, task_id=x.task_id, outcomes=[Outcome.BUILD_ERROR]
        ),
    ),
    Query(name="curve of the large search", ask=lambda s, x: curves.improvements(s, [x.search_id])),
    Query(name="points of the large search", ask=lambda s, x: curves.points(s, x.search_id)),
    Query(
        name="newest failures of the farm",
        ask=lambda s, _: failures.newest_failures(s, job_id=None, limit=50),
    ),
    Query(
        name="lookup of 50 workloads",
        ask=lambda s, x: records.current_records(
            s, target_key=x.target_key, tvm_version="0.27", shashes=x.ended_shashes
        ),
    ),
    Query(name="near hits of 50 workloads", ask=lambda s, x: records.near_records(s, x.ended_shashes)),
    Query(name="page of records", ask=lambda s, _: records.list_records(s, limit=50, after_id=None)),
    Query(name="searches free to lease", ask=lambda s, _: searches.free_searches(s, limit=64)),
    Query(name="searches still needed", ask=lambda s, x: searches.needed_searches(s, x.running_ids)),
    Query(name="jobs that are open", ask=lambda s, _: progress.open_jobs(s)),
    Query(name="open trials of 64 searches", ask=lambda s, x: rounds.open_trials(s, x.running_ids)),
    Query(name="cancelled trials of 64 searches", ask=lambda s, x: rounds.cancelled_trials(s, x.running_ids)),
    Query(name="baselines of 64 searches", ask=lambda s, x: rounds.baselines(s, x.running_ids)),
    Query(
        name="what the large search knows",
        ask=lambda s, x: rounds.known_trials(s, x.search_id, up_to_round=8),
    ),
    Query(name="results by round, large search", ask=lambda s, x: rounds.round_results(s, [x.search_id])),
    Query(name="trials under way, of one replica", ask=lambda s, _: dispatched_trials(s, tended_by="nobody")),
    Query(name="trials under way, by target", ask=lambda s, x: outstanding(s, [x.target_id])),
    Query(
        name="newest stage seconds of a target",
        ask=lambda s, x: recent_stage_secs(s, x.target_id, limit=50),
    ),
    Query(
        name="dispatch of a chunk",
        ask=lambda s, x: attempts.dispatch(
            s,
            search_id=x.search_id,
            job_id=x.job_id,
            purpose=Purpose.SEARCH,
            limit=8,
            chunk_id="c",
            deadline_secs=60,
        ),
    ),
    Query(
        name="contenders of the large search", ask=lambda s, x: publishing.contenders(s, x.search_id, limit=3)
    ),
    Query(name="searches to be thinned", ask=lambda s, _: thinning.idle_searches(s, after=0, limit=200)),
    Query(
        name="losers of a search thinned",
        ask=lambda s, x: thinning.thin(s, x.ended_search_id, keep=128, ended_before_secs=0, limit=500),
    ),
    Query(name="depth of the queues", ask=lambda s, _: load.queue_depths(s)),
    Query(name="rates of the workers", ask=lambda s, _: load.worker_rates(s, within_secs=600.0)),
    Query(
        name="trials done lately, of a target",
        ask=lambda s, x: trials_view.recent_rate(s, target_id=x.target_id, within_secs=600.0),
    ),
    Query(name="counts of the whole farm", ask=lambda s, _: counts.count_farm(s), counts_all=True),
)


def explain(engine: Engine, query: Query, about: Sample) -> list[dict[str, Any]]:
    """The plan of each statement that a query sends; nothing that it writes stays."""
    with Session(engine) as session:
        with _caught(engine) as sent:
            query.ask(session, about)
        plans = []
        for statement, parameters in sent:
            raw = session.connection().exec_driver_sql(f"EXPLAIN (FORMAT JSON) {statement}", parameters)
            plans.append(raw.scalar_one()[0]["Plan"])
        session.rollback()
    return plans


def large_tables(engine: Engine) -> frozenset[str]:
    """Tables that no plan may read from end to end, as the server's statistics have them."""
    with engine.connect() as connection:
        names = connection.execute(
            text("SELECT relname FROM pg_class WHERE relkind = 'r' AND reltuples >= :rows"),
            {"rows": _MANY_ROWS},
        )
        return frozenset(names.scalars())


def read_whole(plan: dict[str, Any], *, limited: bool = False) -> Iterator[str]:
    """Tables that a plan reads from end to end, be it by way of an index; a page ends where its limit is."""
    limited = limited or plan["Node Type"] == "Limit"
    scan = "Scan" in plan["Node Type"] and "Relation Name" in plan and plan.get("Index Name") not in _PARTIAL
    if scan and not limited and "Index Cond" not in plan and "Bitmap" not in plan["Node Type"]:
        yield plan["Relation Name"]
    for part in plan.get("Plans", []):
        yield from read_whole(part, limited=limited)


def indexes(plan: dict[str, Any]) -> Iterator[str]:
    """Indexes that a plan uses."""
    if "Index Name" in plan:
        yield plan["Index Name"]
    for part in plan.get("Plans", []):
        yield from indexes(part)


@contextmanager
def _caught(engine: Engine) -> Iterator[list[tuple[str, Any]]]:
    sent: list[tuple[str, Any]] = []

    def catch(_c: Any, _cursor: Any, statement: str, parameters: Any, _x: Any, _many: bool) -> None:  # noqa: FBT001 - SQLAlchemy's hook
        sent.append((statement, parameters))

    event.listen(engine, "before_cursor_execute", catch)
    try:
        yield sent
    finally:
        event.remove(engine, "before_cursor_execute", catch)


def run(engine: Engine, query: Query, about: Sample) -> None:
    """Ask once, in a transaction that leaves nothing behind."""
    with transaction(engine) as session:
        query.ask(session, about)
        session.rollback()
