"""Prometheus metrics, read from rows when asked: tilefarm_*, base units, no label per job or workload."""

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector
from sqlalchemy import Engine, func, select

from db.jobs import ENDED
from db.session import reading
from db.tables import JobRow, RecordRow, TrialRow
from db.workers import list_workers
from services.api.settings import ApiSettings
from services.api.worker_views import health


class RowMetrics(Collector):
    """Counts of rows; one collection is a handful of queries."""

    def __init__(self, engine: Engine, settings: ApiSettings) -> None:
        self._engine = engine
        self._settings = settings

    def collect(self) -> Iterable[Metric]:
        with reading(self._engine) as session:
            jobs = session.execute(select(JobRow.state, func.count()).group_by(JobRow.state)).all()
            open_trials = session.execute(
                select(TrialRow.state, func.count())
                .join(JobRow, JobRow.id == TrialRow.job_id)
                .where(JobRow.state.not_in(ENDED))
                .group_by(TrialRow.state)
            ).all()
            outcomes = session.execute(
                select(TrialRow.outcome, func.count())
                .where(TrialRow.outcome.is_not(None))
                .group_by(TrialRow.outcome)
            ).all()
            records = session.execute(select(RecordRow.state, func.count()).group_by(RecordRow.state)).all()
            workers = [health(worker, self._settings) for worker in list_workers(session)]
        yield _family("tilefarm_jobs", "Jobs by state", "state", [(row[0], row[1]) for row in jobs])
        yield _family(
            "tilefarm_open_trials",
            "Trials of jobs not ended",
            "state",
            [(row[0], row[1]) for row in open_trials],
        )
        yield _family(
            "tilefarm_trial_outcomes",
            "Trials by outcome",
            "outcome",
            [(str(row[0]), row[1]) for row in outcomes],
        )
        yield _family("tilefarm_records", "Records by state", "state", [(row[0], row[1]) for row in records])
        yield _family(
            "tilefarm_workers",
            "Workers by health",
            "health",
            [(name, workers.count(name)) for name in ("alive", "stale", "dead")],
        )


def registry(engine: Engine, settings: ApiSettings) -> CollectorRegistry:
    made = CollectorRegistry()
    made.register(RowMetrics(engine, settings))
    return made


def _family(name: str, text: str, label: str, values: Iterable[tuple[str, int]]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, text, labels=[label])
    for value, count in values:
        family.add_metric([value], count)
    return family
