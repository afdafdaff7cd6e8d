"""Fills a PostgreSQL database with generated jobs, searches, trials and records, in a few big statements.

The shape is a farm's that has run for long: many jobs that ended, a few that run, one large search. Sizes of
traces and features are those of real rows; their bytes mean nothing.
"""

import secrets
import zlib
from dataclasses import dataclass
from string import Template
from typing import Any

from sqlalchemy import Connection, Engine, text

from checks.target import canonical, key
from db.session import transaction
from db.tables import TargetRow

#: Of the compressed text that stands for traces, features and modules.
_TEXT_BYTES = 600
_TARGETS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    trials: int
    #: Trials of each search, the large one aside.
    trials_per_search: int = 256
    #: Trials of the large one.
    large: int = 10_000

    @property
    def searches(self) -> int:
        return max(10, (self.trials - self.large) // self.trials_per_search)


#: A job has four tasks, each with a search of its own; one job in 400 runs, and the last one.
_STATEMENTS = (
    """INSERT INTO workloads (tvm_version, shash, ordinal, module_z, module_sha256, flops, args, created_at)
       SELECT '0.27', lpad(to_hex(s), 16, '0'), 0, decode('$module', 'hex'),
              encode(sha256(s::text::bytea), 'hex'), 1e9, '[]', now()
       FROM generate_series(1, $searches) s""",
    """INSERT INTO jobs (id, name, owner, target_id, target_name, state, desired_state, priority, max_trials,
                         trials_reserved, strategy, seed, options, warnings, revision, created_at, started_at,
                         finished_at)
       SELECT 'job-' || lpad(j::text, 16, '0'), 'generated', 'owner-' || j % 50, j % $targets + 1, 'local',
              CASE WHEN j % 400 = 0 OR j = $jobs THEN 'running' ELSE 'succeeded' END, 'running', 0,
              100000, 1024, 'evolutionary', 0, '{}', '[]', 1,
              now() - ($jobs - j) * interval '5 minutes', now() - ($jobs - j) * interval '5 minutes',
              CASE WHEN j % 400 = 0 OR j = $jobs THEN NULL ELSE now() - ($jobs - j) * interval '4 minutes' END
       FROM generate_series(1, $jobs) j""",
    """INSERT INTO searches (key, workload_id, target_id, tvm_version, space_hash, strategy, seed, policy,
                             policy_hash, options, isolation_key, state, rounds, crashes, stage_secs,
                             lease_epoch, untuned_latency_secs, best_latency_secs, created_at)
       SELECT encode(sha256(('s' || s)::bytea), 'hex'), s, ((s - 1) / 4 + 1) % $targets + 1, '0.27', '',
              'evolutionary', 0, '{}', '', '{}', '', 'active', 16, 0, '{}', 0, 0.01, 0.001, now()
       FROM generate_series(1, $searches) s""",
    """INSERT INTO tasks (job_id, ordinal, name, workload_id, search_id, weight, state, trials_reserved,
                          exhausted, created_at)
       SELECT j.id, (s - 1) % 4, 'main', s, s, 1, j.state, 256, false, now()
       FROM generate_series(1, $searches) s
       JOIN jobs j ON j.id = 'job-' || lpad(((s - 1) / 4 + 1)::text, 16, '0')""",
    """INSERT INTO trials (search_id, job_id, task_id, purpose, state, round, trace_hash, trace_z,
                           program_hash, features_z, predicted_score, attempt, started_attempts, outcome,
                           run_secs, latency_secs, stage_secs, worker_id, device_class, tvm_version,
                           created_at, dispatched_at, deadline_at, done_at, error)
       SELECT t.search_id, k.job_id, k.id, CASE WHEN t.n = 0 THEN 'baseline' ELSE 'search' END, t.state,
              t.n / 16, encode(sha256((t.search_id || '-' || t.n)::bytea), 'hex'),
              decode('$text', 'hex'), substr(md5(t.search_id || '-' || t.n), 1, 16),
              decode('$text', 'hex'), random(), 1, 1,
              CASE WHEN t.state = 'done' THEN t.outcome END,
              CASE WHEN t.state = 'done' AND t.outcome = 'ok' THEN '[0.001, 0.0011, 0.00105]'::jsonb END,
              CASE WHEN t.state = 'done' AND t.outcome IN ('ok', 'cut_off') THEN 0.001 + random() * 0.01 END,
              '{"build": 0.06, "measure": 0.02}', 'worker-' || t.n % 64, 'generated 2c', '0.27',
              t.at, t.at, t.at + interval '60 seconds', CASE WHEN t.state = 'done' THEN t.at END,
              CASE WHEN t.outcome NOT IN ('ok', 'cut_off') THEN 'generated' END
       FROM (SELECT s AS search_id, n, k.job_id,
                    CASE WHEN k.state <> 'running' OR n < $per_search - 32 THEN 'done'
                         WHEN n < $per_search - 1 AND n % 2 = 0 THEN 'dispatched' ELSE 'queued' END AS state,
                    CASE n % 10 WHEN 0 THEN 'cut_off' WHEN 1 THEN 'build_error' ELSE 'ok' END AS outcome,
                    j.created_at + (n - $large) * interval '0.5 seconds' AS at
             FROM generate_series($first, $last) s
             JOIN tasks k ON k.search_id = s JOIN jobs j ON j.id = k.job_id
             CROSS JOIN LATERAL generate_series(0, $per_search - 1) n) t
       JOIN tasks k ON k.search_id = t.search_id""",
    """UPDATE searches SET best_trial_id = best.id FROM (
         SELECT DISTINCT ON (search_id) search_id, id FROM trials
         WHERE purpose = 'search' AND outcome = 'ok' ORDER BY search_id, latency_secs) best
       WHERE searches.id = best.search_id""",
    """INSERT INTO records (workload_id, target_id, tvm_version, state, trace_z, trace_hash, run_secs,
                            latency_secs, trial_id, policy, device_class, created_at)
       SELECT s.workload_id, s.target_id, '0.27', 'published', decode('$text', 'hex'),
              'r' || v, '[0.001]', 0.001, NULL, '{}', 'generated 2c', now()
       FROM searches s CROSS JOIN generate_series(1, 2) v""",
)
_TRIALS = 4
_IMPROVED = """
       UPDATE trials SET improved = true FROM (
         SELECT id, latency_secs, min(latency_secs) OVER (
             PARTITION BY search_id ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
         FROM trials WHERE purpose = 'search' AND outcome = 'ok') curve
       WHERE trials.id = curve.id AND (before IS NULL OR curve.latency_secs < before)"""


def generated_target(cores: int) -> dict[str, Any]:
    """The canonical target number `cores`; they differ in their cores alone."""
    return canonical({"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": cores})


def fill(engine: Engine, size: Size, *, improvements: bool = True) -> None:
    """Rows for tables that are empty; statistics are taken at the end.

    `improvements`: the schema marks them (0009), or an older one is filled.
    """
    jobs = (size.searches + 3) // 4
    common: dict[str, int | str] = {
        "large": size.large,
        "targets": _TARGETS,
        "searches": size.searches,
        "jobs": jobs,
        "text": _packed(f'[[],["{secrets.token_hex(_TEXT_BYTES)}"]]'),
        "module": _packed(f'{{"root_index":0,"nodes":["{secrets.token_hex(_TEXT_BYTES)}"]}}'),
    }
    with transaction(engine) as session:
        for cores in range(1, _TARGETS + 1):
            form = generated_target(cores)
            session.add(TargetRow(key=key(form), canonical=form))
    with engine.begin() as connection:
        for statement in _STATEMENTS[:_TRIALS]:
            _execute(connection, statement, common)
        large: dict[str, int | str] = {
            "first": size.searches,
            "last": size.searches,
            "per_search": size.large,
        }
        ordinary: dict[str, int | str] = {
            "first": 1,
            "last": size.searches - 1,
            "per_search": size.trials_per_search,
        }
        for part in (ordinary, large):
            _execute(connection, _STATEMENTS[_TRIALS], common | part)
        if improvements:
            _execute(connection, _IMPROVED, common)
        for statement in _STATEMENTS[_TRIALS + 1 :]:
            _execute(connection, statement, common)
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("VACUUM ANALYZE"))


def _packed(json_text: str) -> str:
    """Hex of zlib, as a statement takes it."""
    return zlib.compress(json_text.encode()).hex()


def _execute(connection: Connection, statement: str, values: dict[str, int | str]) -> None:
    connection.execute(text(Template(statement).substitute(values)))
