"""What the rows say, asked of PostgreSQL itself: triggers note each move of a trial and each budget too high.

It believes nothing that the farm says of itself. The triggers stand in the databases of these runs only.
"""

import time
from collections.abc import Sequence
from typing import Any

import psycopg

_RETRY_SECS = 0.1
_AWAY_SECS = 60.0

_TRIGGERS = """
CREATE TABLE chaos_moves (
  id bigserial PRIMARY KEY, trial_id bigint, job_id text, purpose text, old text, new text,
  attempt int, at timestamptz DEFAULT clock_timestamp());
CREATE TABLE chaos_overdrawn (job_id text, reserved int, max_trials int);
CREATE FUNCTION chaos_move() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  INSERT INTO chaos_moves (trial_id, job_id, purpose, old, new, attempt)
  VALUES (NEW.id, NEW.job_id, NEW.purpose, OLD.state, NEW.state, NEW.attempt); RETURN NULL; END $$;
CREATE FUNCTION chaos_overdraw() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  INSERT INTO chaos_overdrawn VALUES (NEW.id, NEW.trials_reserved, NEW.max_trials); RETURN NULL; END $$;
CREATE TRIGGER chaos_move AFTER UPDATE ON trials FOR EACH ROW
  WHEN (NEW.state <> OLD.state OR NEW.outcome <> OLD.outcome OR NEW.run_secs::text <> OLD.run_secs::text)
  EXECUTE FUNCTION chaos_move();
CREATE TRIGGER chaos_overdraw AFTER UPDATE ON jobs FOR EACH ROW
  WHEN (NEW.trials_reserved > NEW.max_trials) EXECUTE FUNCTION chaos_overdraw();
"""

#: Search trials whose result was written more than once, and programs that one search measured twice.
_DOUBLED = """
SELECT (SELECT count(*) FROM (SELECT trial_id FROM chaos_moves WHERE job_id = %(job)s AND purpose = 'search'
        AND new IN ('done', 'failed') GROUP BY trial_id HAVING count(*) > 1) AS twice)
     + (SELECT count(*) FROM (SELECT 1 FROM trials WHERE job_id = %(job)s AND purpose = 'search'
        GROUP BY search_id, program_hash HAVING count(*) > 1) AS same)
"""

#: Records that took another's place without having been faster than it in the very confirmation.
_REGRESSED = """
SELECT count(*) FROM records r JOIN trials c ON c.id = r.confirm_trial_id
WHERE c.incumbent_record_id IS NOT NULL AND c.incumbent_run_secs IS NOT NULL
  AND (SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY v::float)
       FROM jsonb_array_elements_text(c.run_secs) v)
   >= (SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY v::float)
       FROM jsonb_array_elements_text(c.incumbent_run_secs) v)
"""


class Audit:
    """Each question is a connection of its own, tried again while the server is away."""

    def __init__(self, dsn: str, *, admin_dsn: str) -> None:
        self._dsn = dsn
        self._admin_dsn = admin_dsn

    def create_database(self, name: str) -> None:
        with psycopg.connect(self._admin_dsn, autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}"')

    def install(self) -> None:
        self.execute(_TRIGGERS)

    def execute(self, statement: str, parameters: Sequence[Any] | None = None) -> None:
        with psycopg.connect(self._dsn) as connection:
            connection.execute(statement, parameters)

    def ask(self, statement: str, parameters: Any = None) -> list[tuple[Any, ...]]:
        """Rows; a database that is away is waited for."""
        deadline = time.monotonic() + _AWAY_SECS
        while True:
            try:
                with psycopg.connect(self._dsn) as connection:
                    return connection.execute(statement, parameters).fetchall()
            except psycopg.OperationalError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(_RETRY_SECS)

    def now(self) -> float:
        """The database's time, seconds since the epoch."""
        return float(self.ask("SELECT extract(epoch FROM clock_timestamp())")[0][0])

    def done(self, job_id: str) -> int:
        """Search trials of a job that have a result."""
        states = "('done', 'failed')"
        question = (
            f"SELECT count(*) FROM trials WHERE job_id = %s AND purpose = 'search' AND state IN {states}"
        )
        return int(self.ask(question, [job_id])[0][0])

    def first_result_after(self, job_id: str, since: float) -> float | None:
        """When the first result of a job was written after a time, both in the database's seconds."""
        question = """SELECT extract(epoch FROM min(at)) FROM chaos_moves
                      WHERE job_id = %s AND new = 'done' AND at > to_timestamp(%s)"""
        (row,) = self.ask(question, [job_id, since])
        return None if row[0] is None else float(row[0])

    def by_state(self, job_id: str) -> dict[str, int]:
        """Search trials of a job."""
        question = (
            "SELECT state, count(*) FROM trials WHERE job_id = %s AND purpose = 'search' GROUP BY state"
        )
        return {state: count for state, count in self.ask(question, [job_id])}  # noqa: C416 - rows, not pairs

    def doubled(self, job_id: str) -> int:
        return int(self.ask(_DOUBLED, {"job": job_id})[0][0])

    def regressed(self) -> int:
        return int(self.ask(_REGRESSED)[0][0])

    def overdrawn(self) -> int:
        return int(self.ask("SELECT count(*) FROM chaos_overdrawn")[0][0])

    def jobs_named(self, name: str) -> int:
        return int(self.ask("SELECT count(*) FROM jobs WHERE name = %s", [name])[0][0])
