"""Searches and their leases: who may tune what, fenced by epoch, in database time.

A lease is an expiring exclusive right. Its epoch grows with each claim, so a write of a former owner matches
no row. Rows are locked FOR NO KEY UPDATE: a submission whose tasks refer to a search does not wait for who
tunes it. Nothing here decides what to measure.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from sqlalchemy import ColumnElement, Select, Table, and_, bindparam, func, or_, select, tuple_, update
from sqlalchemy.orm import Session

from db.clock import utc_now
from db.rowcount import changed
from db.states import JobState, SearchState, TaskState
from db.tables import JobRow, SearchRow, TargetRow, TaskRow, WorkloadRow

_OPEN_TASKS = (TaskState.QUEUED, TaskState.RUNNING)
_SEARCHES = cast("Table", SearchRow.__table__)
# Made once: each chunk, or batch of results, asks them.
_FENCE = (
    select(SearchRow.id)
    .where(
        SearchRow.id == bindparam("search"),
        SearchRow.lease_owner == bindparam("owner"),
        SearchRow.lease_epoch == bindparam("epoch"),
        SearchRow.lease_expires_at > utc_now(),
    )
    .with_for_update(key_share=True)
)
_STAGE_SECS = (
    select(SearchRow.id, SearchRow.stage_secs)
    .where(SearchRow.id.in_(bindparam("searches", expanding=True)))
    .order_by(SearchRow.id)
    .with_for_update(key_share=True)
)
_SET_STAGE_SECS = (
    update(_SEARCHES).where(_SEARCHES.c.id == bindparam("search")).values(stage_secs=bindparam("stages"))
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """The right to write a search's rows, as long as the epoch stands."""

    search_id: int
    owner: str
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """A search row with its target; the module's text is read apart."""

    id: int
    workload_id: int
    target_id: int
    target_key: str
    target: Mapping[str, Any]
    tvm_version: str
    space: Mapping[str, Any] | None
    strategy: str
    seed: int
    policy: Mapping[str, Any]
    options: Mapping[str, Any]
    state: SearchState
    error: str | None
    rounds: int
    crashes: int
    untuned_latency_secs: float | None
    best_latency_secs: float | None
    flops: float
    #: Of the workload: [{"shape": [..], "dtype": ".."}, ..].
    args: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    #: zlib of the canonical module's JSON text.
    module_z: bytes
    sha256: str


def free_searches(session: Session, *, limit: int) -> list[int]:
    """Searches that a running task needs and nobody holds, those of urgent jobs first."""
    urgency = func.max(JobRow.priority)
    statement = (
        _needed(select(SearchRow.id))
        .where(_free())
        .group_by(SearchRow.id)
        .order_by(urgency.desc(), SearchRow.id)
        .limit(limit)
    )
    return list(session.scalars(statement))


def needed_searches(session: Session, search_ids: Collection[int]) -> set[int]:
    """Those of the given searches that a running task still needs."""
    return set(session.scalars(_needed(select(SearchRow.id)).where(SearchRow.id.in_(search_ids)).distinct()))


def claim_search(session: Session, search_id: int, *, owner: str, secs: float) -> Lease | None:
    """Take a free search for `secs`; None where another owner was faster."""
    statement = (
        update(SearchRow)
        .where(SearchRow.id == search_id, _free())
        .values(
            lease_owner=owner,
            lease_epoch=SearchRow.lease_epoch + 1,
            lease_expires_at=utc_now(offset_secs=secs),
        )
    )
    if not changed(session, statement):
        return None
    epoch = session.scalars(select(SearchRow.lease_epoch).where(SearchRow.id == search_id)).one()
    return Lease(search_id=search_id, owner=owner, epoch=epoch)


def renew_leases(session: Session, leases: Collection[Lease], *, secs: float) -> set[int]:
    """Prolong what has not expired; returns the searches that are still held."""
    if not leases:
        return set()
    held = [(lease.search_id, lease.owner, lease.epoch) for lease in leases]
    mine = and_(
        tuple_(SearchRow.id, SearchRow.lease_owner, SearchRow.lease_epoch).in_(held),
        SearchRow.lease_expires_at > utc_now(),
    )
    session.execute(
        update(SearchRow)
        .where(mine)
        .values(lease_expires_at=utc_now(offset_secs=secs))
        .execution_options(synchronize_session=False)
    )
    return set(session.scalars(select(SearchRow.id).where(mine)))


def release_lease(session: Session, lease: Lease) -> None:
    """Give the search back at once; the epoch stays, so that it still fences."""
    session.execute(update(SearchRow).where(_owned(lease)).values(lease_owner=None, lease_expires_at=None))


def fence(session: Session, lease: Lease) -> bool:
    """Lock the search's row for this transaction; False where the lease is no longer held."""
    which = {"search": lease.search_id, "owner": lease.owner, "epoch": lease.epoch}
    return session.execute(_FENCE, which).first() is not None


def read_searches(session: Session, search_ids: Collection[int]) -> dict[int, Search]:
    statement = (
        select(SearchRow, TargetRow.key, TargetRow.canonical, WorkloadRow.flops, WorkloadRow.args)
        .join(WorkloadRow, WorkloadRow.id == SearchRow.workload_id)
        .join(TargetRow, TargetRow.id == SearchRow.target_id)
        .where(SearchRow.id.in_(search_ids))
    )
    return {
        row.id: _search(row, key, canonical, flops, args)
        for row, key, canonical, flops, args in session.execute(statement)
    }


def read_module(session: Session, workload_id: int) -> Module:
    row = session.execute(
        select(WorkloadRow.module_z, WorkloadRow.module_sha256).where(WorkloadRow.id == workload_id)
    ).one()
    return Module(module_z=row.module_z, sha256=row.module_sha256)


def finish_round(session: Session, lease: Lease, *, round_: int, exhausted: bool) -> bool:
    """Count a round that was asked for; False where it was counted before, or the lease is lost."""
    values: dict[str, Any] = {"rounds": round_ + 1, "crashes": 0}
    if exhausted:
        values["state"] = SearchState.EXHAUSTED
    active = (SearchRow.state == SearchState.ACTIVE, SearchRow.rounds == round_)
    return changed(session, update(SearchRow).where(_held(lease), *active).values(values)) == 1


def count_crash(session: Session, lease: Lease, *, error: str) -> int | None:
    """One more death of the search child; returns how many in a row, None where the lease is lost."""
    statement = update(SearchRow).where(_held(lease)).values(crashes=SearchRow.crashes + 1, error=error)
    if not changed(session, statement):
        return None
    return session.scalars(select(SearchRow.crashes).where(SearchRow.id == lease.search_id)).one()


def fail_search(session: Session, lease: Lease, *, error: str) -> bool:
    """The search cannot go on; its tasks fail with this reason."""
    statement = update(SearchRow).where(_held(lease)).values(state=SearchState.FAILED, error=error)
    return changed(session, statement) == 1


def lock_searches_of(session: Session, job_id: str) -> None:
    """Lock the searches of a job's tasks, by id, before the job itself and its trials."""
    mine = select(TaskRow.search_id).where(TaskRow.job_id == job_id)
    locked = select(SearchRow.id).where(SearchRow.id.in_(mine)).order_by(SearchRow.id)
    session.execute(locked.with_for_update(key_share=True)).all()


def revive_failed(session: Session, job_id: str) -> list[int]:
    """A new job gives the failed searches of its tasks another chance; returns them. They are locked."""
    mine = select(TaskRow.search_id).where(TaskRow.job_id == job_id)
    failed = select(SearchRow.id).where(SearchRow.id.in_(mine), SearchRow.state == SearchState.FAILED)
    search_ids = list(session.scalars(failed.order_by(SearchRow.id)))
    revived = update(SearchRow).where(SearchRow.id.in_(search_ids))
    changed(session, revived.values(state=SearchState.ACTIVE, crashes=0, error=None))
    return search_ids


def add_stage_secs(session: Session, spent: Mapping[int, Mapping[str, float]]) -> None:
    """Add seconds by stage to what searches have spent; takes their rows' locks, by id."""
    if not spent:
        return
    rows = session.execute(_STAGE_SECS, {"searches": sorted(spent)}).all()
    sums = [{"search": row.id, "stages": _added(row.stage_secs, spent[row.id])} for row in rows]
    session.execute(_SET_STAGE_SECS, sums)


def _added(secs: Mapping[str, float], more: Mapping[str, float]) -> dict[str, float]:
    return {**secs, **{stage: round(secs.get(stage, 0.0) + more[stage], 6) for stage in more}}


def _needed(statement: Select[Any]) -> Select[Any]:
    return (
        statement.join(TaskRow, TaskRow.search_id == SearchRow.id)
        .join(JobRow, JobRow.id == TaskRow.job_id)
        .where(TaskRow.state.in_(_OPEN_TASKS), JobRow.state == JobState.RUNNING)
    )


def _free() -> ColumnElement[bool]:
    return or_(SearchRow.lease_owner.is_(None), SearchRow.lease_expires_at <= utc_now())


def _owned(lease: Lease) -> ColumnElement[bool]:
    return and_(
        SearchRow.id == lease.search_id,
        SearchRow.lease_owner == lease.owner,
        SearchRow.lease_epoch == lease.epoch,
    )


def _held(lease: Lease) -> ColumnElement[bool]:
    return and_(_owned(lease), SearchRow.lease_expires_at > utc_now())


def _search(
    row: SearchRow,
    target_key: str,
    target: Mapping[str, Any],
    flops: float,
    args: Sequence[Mapping[str, Any]],
) -> Search:
    return Search(
        id=row.id,
        workload_id=row.workload_id,
        target_id=row.target_id,
        target_key=target_key,
        target=target,
        tvm_version=row.tvm_version,
        space=row.space,
        strategy=row.strategy,
        seed=row.seed,
        policy=row.policy,
        options=row.options,
        state=SearchState.of(row.state),
        error=row.error,
        rounds=row.rounds,
        crashes=row.crashes,
        untuned_latency_secs=row.untuned_latency_secs,
        best_latency_secs=row.best_latency_secs,
        flops=flops,
        args=args,
    )
