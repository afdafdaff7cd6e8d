"""The embedded service as a benchmark uses it: one job at a time over REST."""

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx

from bench.processes import BenchError
from db.states import JobState, Outcome, Purpose, TrialState
from services.server.launch import launch

_POLL_SECS = 0.25
_PAGE = 200


class Farm:
    """A running service, with the few things that a benchmark asks of it."""

    def __init__(self, http: httpx.Client, target: dict[str, Any], logs: Path) -> None:
        self._http = http
        self.target = target
        self._logs = logs

    def tune(self, body: dict[str, Any]) -> dict[str, Any]:
        """Submit and wait. BenchError for a job that does not succeed."""
        job = self._http.post("/v1/jobs", json=body).raise_for_status().json()
        while not JobState(job["state"]).ended:
            time.sleep(_POLL_SECS)
            job = self._get(f"/v1/jobs/{job['id']}")
        if job["state"] != "succeeded":
            raise BenchError(f"{body['name']} {job['state']}: {job['error']}")
        return dict(job)

    def trials(self, job_id: str) -> list[dict[str, Any]]:
        """All trials of a job, of every purpose, in the order in which they were suggested."""
        trials: list[dict[str, Any]] = []
        params: dict[str, Any] = {"page_size": _PAGE}
        while True:
            page = self._get(f"/v1/jobs/{job_id}/trials", **params)
            trials += page["trials"]
            if not page["next_page_token"]:
                return sorted(trials, key=lambda trial: int(trial["id"]))
            params["page_token"] = page["next_page_token"]

    def best_so_far(self, job_id: str) -> list[float | None]:
        """Best latency (seconds) after each search trial, in the order in which they were suggested."""
        curve: list[float | None] = []
        best: float | None = None
        for trial in searched(self.trials(job_id)):
            if trial["outcome"] == Outcome.OK:
                best = min(best or trial["latency_secs"], trial["latency_secs"])
            curve.append(best)
        return curve

    def own_best_trace(self, job_id: str) -> Any:
        """The trace of the job's fastest trial: a record may be another job's on the same workload."""
        return self.trial_trace(fastest(searched(self.trials(job_id)))[0]["id"])

    def best_trace(self, task_id: int) -> Any:
        """The trace of the record that a consumer gets."""
        return self._get(f"/v1/tasks/{task_id}/record")["trace"]

    def trial_trace(self, trial_id: int) -> Any:
        return self._get(f"/v1/trials/{trial_id}")["trace"]

    def worker_log(self) -> list[str]:
        """The lines that the worker has logged so far."""
        return (self._logs / "worker.log").read_text(errors="replace").splitlines()

    def _get(self, path: str, **params: Any) -> dict[str, Any]:
        answer: dict[str, Any] = self._http.get(path, params=params).raise_for_status().json()
        return answer


def searched(trials: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The trials that a job is charged for, as far as they have an outcome."""
    ended = (TrialState.DONE, TrialState.FAILED)
    return [trial for trial in trials if trial["purpose"] == Purpose.SEARCH and trial["state"] in ended]


def fastest(trials: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those that ran, the fastest first."""
    ok = [trial for trial in trials if trial["outcome"] == Outcome.OK]
    return sorted(ok, key=lambda trial: float(trial["latency_secs"]))


def epoch_secs(time_text: str) -> float:
    """Of a time as the API writes it."""
    return datetime.fromisoformat(time_text).timestamp()


@contextmanager
def running_farm() -> Iterator[Farm]:
    """An embedded service on a fresh data directory."""
    with (
        tempfile.TemporaryDirectory(prefix="tilefarm-bench-") as directory,
        launch(Path(directory) / "data") as service,
    ):
        headers = {"Authorization": f"Bearer {service.token}"}
        with httpx.Client(base_url=service.url, headers=headers, timeout=30.0) as http:
            yield Farm(http, service.target, service.data_dir / "logs")
