"""What tuning has brought on a target so far: untuned and published latency of each workload. Read only."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from db.published import newest_of_each
from db.tables import RecordRow, SearchRow, WorkloadRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuned:
    """A workload with a published record, whose untuned module was measured too."""

    flops: float
    #: [{"shape": [..], "dtype": ".."}, ..] by parameter.
    args: list[dict[str, Any]]
    untuned_secs: float
    tuned_secs: float


def tuned_workloads(session: Session, *, target_key: str, tvm_version: str, limit: int) -> list[Tuned]:
    """For exactly this target and TVM; those with the newest records."""
    newest = newest_of_each(target_key=target_key, tvm_version=tvm_version).subquery()
    untuned_secs = func.min(SearchRow.untuned_latency_secs)
    statement = (
        select(WorkloadRow.flops, WorkloadRow.args, untuned_secs, RecordRow.latency_secs)
        .join(newest, newest.c.id == RecordRow.id)
        .join(WorkloadRow, WorkloadRow.id == RecordRow.workload_id)
        .join(
            SearchRow,
            (SearchRow.workload_id == RecordRow.workload_id) & (SearchRow.target_id == RecordRow.target_id),
        )
        .where(SearchRow.untuned_latency_secs.is_not(None))
        .group_by(RecordRow.id, WorkloadRow.id)
        .order_by(RecordRow.id.desc())
        .limit(limit)
    )
    return [
        Tuned(flops=flops, args=args, untuned_secs=untuned, tuned_secs=tuned)
        for flops, args, untuned, tuned in session.execute(statement)
    ]
