"""The embedded service as a benchmark uses it: one job at a time over REST."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from db.states import JobState
from services.server.launch import launch

_POLL_SECS = 0.2


class Farm:
    """A running service, with the few things that a benchmark asks of it."""

    def __init__(self, http: httpx.Client, target: dict[str, Any]) -> None:
        self._http = http
        self.target = target

    def tune(self, body: dict[str, Any]) -> dict[str, Any]:
        """Submit and wait; a job that does not succeed is an error."""
        job = self._http.post("/v1/jobs", json=body).raise_for_status().json()
        while not JobState(job["state"]).ended:
            time.sleep(_POLL_SECS)
            job = self._get(f"/v1/jobs/{job['id']}")
        if job["state"] != "succeeded":
            raise RuntimeError(f"{body['name']} {job['state']}: {job['error']}")
        return job

    def best_so_far(self, job_id: str) -> list[float | None]:
        """Best latency (seconds) after each search trial, in the order in which they were suggested."""
        curve: list[float | None] = []
        best: float | None = None
        for trial in self._search_trials(job_id):
            if trial["outcome"] == "ok":
                best = min(best or trial["latency_secs"], trial["latency_secs"])
            curve.append(best)
        return curve

    def best_trace(self, task_id: int) -> Any:
        return self._get(f"/v1/tasks/{task_id}/record")["trace"]

    def _search_trials(self, job_id: str) -> list[dict[str, Any]]:
        trials: list[dict[str, Any]] = []
        params: dict[str, Any] = {"page_size": 200}
        while True:
            page = self._get(f"/v1/jobs/{job_id}/trials", **params)
            trials += [trial for trial in page["trials"] if trial["purpose"] == "search"]
            if not page["next_page_token"]:
                return sorted(trials, key=lambda trial: trial["id"])
            params["page_token"] = page["next_page_token"]

    def _get(self, path: str, **params: Any) -> dict[str, Any]:
        answer: dict[str, Any] = self._http.get(path, params=params).raise_for_status().json()
        return answer


@contextmanager
def running_farm(data_dir: Path) -> Iterator[Farm]:
    """An embedded service on a fresh data directory."""
    with launch(data_dir) as service:
        headers = {"Authorization": f"Bearer {service.token}"}
        with httpx.Client(base_url=service.url, headers=headers, timeout=30.0) as http:
            yield Farm(http, service.target)
