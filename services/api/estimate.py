"""How long a submitted job may take: its trials at the pace of late, or at a default. Only for show."""

from sqlalchemy.orm import Session

from db.targets import find_target
from db.trials_view import recent_rate
from services.api.schemas import JobView
from services.api.settings import ApiSettings

_LATELY_SECS = 1800.0
_MIN_TRIALS = 16


def estimated_secs(session: Session, job: JobView, settings: ApiSettings) -> float:
    """Trials × seconds per trial of the same target in the last half hour, plus the start of a search."""
    target = find_target(session, job.target.key)
    assert target is not None
    rate = recent_rate(session, target_id=target.id, within_secs=_LATELY_SECS)
    trial_secs = settings.default_trial_secs
    if rate.trials >= _MIN_TRIALS and rate.secs > 0:
        trial_secs = min(rate.secs / (rate.trials - 1), 10 * settings.default_trial_secs)
    trials = min(job.max_trials, sum(task.max_trials for task in job.tasks))
    return round(settings.search_start_secs + trials * trial_secs, 1)
