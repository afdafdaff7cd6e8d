"""When a task has nothing left to wait for, and how it then ends. Pure functions of rows."""

from dataclasses import dataclass

from db.progress import OpenTask
from db.rounds import Closed
from db.searches import Search
from db.states import JobState, Outcome, Purpose, SearchState, TaskState, TrialState
from services.tuning.snapshot import Snapshot
from workers.messages import REFERENCE_ERROR


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskEnd:
    state: TaskState
    record_id: int | None = None
    exhausted: bool = False
    #: Why its budget is not spent, where its job asked for that.
    stopped: str | None = None
    error: str | None = None


def reference_failure(baseline: Closed | None) -> str | None:
    """The reason why no candidate of this search can ever be checked, if there is one."""
    if baseline is None or baseline.outcome is not Outcome.REJECTED or baseline.error is None:
        return None
    return baseline.error if baseline.error.startswith(REFERENCE_ERROR) else None


def baseline_closed(baseline: Closed | None) -> bool:
    return baseline is not None and baseline.state in (TrialState.DONE, TrialState.FAILED)


def is_spent(task: OpenTask) -> bool:
    return task.budget_left == 0


def is_exhausted(snapshot: Snapshot, search: Search) -> bool:
    return search.state is SearchState.EXHAUSTED and not snapshot.cancelled.get(search.id)


def is_ending(snapshot: Snapshot, task: OpenTask) -> bool:
    """All its search trials are closed and it gets no more; only confirmations may still be needed."""
    search = snapshot.searches[task.search_id]
    if not task.runs or not baseline_closed(snapshot.baselines.get(search.id)):
        return False
    measuring = snapshot.open_of(search.id, Purpose.SEARCH)
    if is_exhausted(snapshot, search):
        # Another job's candidates are the last of the space: their results count for this task too.
        return not any(
            trials.job_id == task.job_id or trials.job_state is JobState.RUNNING for trials in measuring
        )
    done = is_spent(task) or task.id in snapshot.stopped
    return done and not any(trials.task_id == task.id for trials in measuring)


def end_of(
    task: OpenTask,
    *,
    record_id: int | None,
    exhausted: bool,
    any_ok: bool,
    first_error: Closed | None,
    stopped: str | None = None,
) -> TaskEnd:
    """How a task ends whose confirmations are settled."""
    left = not is_spent(task)
    if record_id is not None:
        return TaskEnd(
            state=TaskState.SUCCEEDED,
            record_id=record_id,
            exhausted=exhausted and left,
            stopped=stopped if left and not exhausted else None,
        )
    return TaskEnd(
        state=TaskState.FAILED,
        exhausted=exhausted and left,
        error=_why_no_record(any_ok=any_ok, exhausted=exhausted, first_error=first_error),
    )


def _why_no_record(*, any_ok: bool, exhausted: bool, first_error: Closed | None) -> str:
    if any_ok:
        return "no measured program could be confirmed by a second measurement"
    if first_error is not None:
        detail = f": {first_error.error}" if first_error.error else ""
        return f"no candidate measured ok; the first one ended as {first_error.outcome}{detail}"
    if exhausted:
        return "the design space holds no candidate"
    return "the job's budget was spent before a candidate of this task was measured"
