"""The step between the two stages of a trial: a build worker built it, a measure worker is to time it.

Each is one compare-and-set on (trial, attempt, dispatched), and puts the trial back into the queue: the
attempt that ends here ended well, so it does not count among those that were lost.
"""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import case, update
from sqlalchemy.orm import Session

from db.rowcount import changed
from db.states import TrialState
from db.tables import TrialRow


def record_built(
    session: Session,
    trial_id: int,
    *,
    attempt: int,
    built: Mapping[str, Any],
    stage_secs: Mapping[str, float],
) -> bool:
    """A build worker built it: it waits for one that measures. False for a late or doubled notice."""
    return _back(session, trial_id, attempt, built=dict(built), stage_secs=dict(stage_secs))


def record_unbuilt(session: Session, trial_id: int, *, attempt: int) -> bool:
    """What was built of it is gone: it is built again. False for a late or doubled notice."""
    return _back(session, trial_id, attempt, built=None, stage_secs=None)


def _back(session: Session, trial_id: int, attempt: int, **values: Any) -> bool:
    came_back = case((TrialRow.worker_id.is_not(None), 1), else_=0)
    statement = (
        update(TrialRow)
        .where(TrialRow.id == trial_id, TrialRow.attempt == attempt, TrialRow.state == TrialState.DISPATCHED)
        .values(
            state=TrialState.QUEUED,
            started_attempts=TrialRow.started_attempts - came_back,
            chunk_id=None,
            worker_id=None,
            deadline_at=None,
            **values,
        )
    )
    return changed(session, statement) == 1
