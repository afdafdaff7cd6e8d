"""The queries that the dashboard's pages ask beside those of bench/queries.py, by name."""

from bench.queries import Query
from db import coverage, curves, failures, jobs_table, load, lookup_traffic, published, records_table, traced
from db.jobs_table import JobFilter, JobSort
from db.states import JobState

_RUNNING = JobFilter(states=[JobState.RUNNING])

PAGE_QUERIES = (
    Query(
        name="jobs page, newest first",
        ask=lambda s, _: jobs_table.page_of_jobs(s, JobFilter(), limit=25, offset=0),
    ),
    Query(
        name="jobs page, those that run",
        ask=lambda s, _: jobs_table.page_of_jobs(s, _RUNNING, limit=25, offset=0),
    ),
    Query(
        name="jobs page, by speed-up",
        ask=lambda s, _: jobs_table.page_of_jobs(s, JobFilter(sort=JobSort.SPEEDUP), limit=25, offset=0),
        counts_all=True,
    ),
    Query(name="jobs by state", ask=lambda s, _: jobs_table.count_by_state(s)),
    Query(name="mark of the large curve", ask=lambda s, x: curves.curve_mark(s, x.search_id)),
    Query(
        name="decisions of the large search",
        ask=lambda s, x: traced.traced_trials(s, x.search_id, fastest=120, sample=180),
    ),
    Query(
        name="failures page, newest 5,000 of the farm",
        ask=lambda s, _: failures.newest_failure_ids(s, job_id=None, limit=5000),
    ),
    Query(
        name="failures of the farm by outcome",
        ask=lambda s, _: failures.count_failures(s, job_id=None),
        counts_all=True,
    ),
    Query(name="failures of a job by outcome", ask=lambda s, x: failures.count_failures(s, job_id=x.job_id)),
    Query(name="last errors of a job's tasks", ask=lambda s, x: failures.last_errors(s, x.job_id)),
    Query(
        name="timeline of the fleet",
        ask=lambda s, _: load.latest_work(s, within_secs=1800.0, limit=20_000),
    ),
    Query(
        name="records page, what lookups get",
        ask=lambda s, _: records_table.page_of_records(s, "", limit=25, offset=0, current=True),
    ),
    Query(
        name="records that lookups get, counted",
        ask=lambda s, _: records_table.count_records(s, "", current=True),
        counts_all=True,
    ),
    Query(
        name="records page, by name or block",
        ask=lambda s, _: records_table.page_of_records(s, "conv2d", limit=25, offset=0, current=True),
        counts_all=True,
    ),
    Query(name="coverage page", ask=lambda s, _: coverage.coverage_lines(s, "", limit=13), counts_all=True),
    Query(name="coverage by target", ask=lambda s, _: coverage.covered_targets(s), counts_all=True),
    Query(name="targets to export", ask=lambda s, _: published.published_targets(s), counts_all=True),
    Query(name="most missed", ask=lambda s, _: lookup_traffic.most_missed(s, limit=10)),
)
