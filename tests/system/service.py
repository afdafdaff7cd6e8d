"""A running tilefarm, started by its own command, and what a user can do with it over HTTP."""

import contextlib
import json
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil

from db.states import JobState, TrialState
from services.server.launch import launch

#: Each answer takes the service's cores some milliseconds.
_POLL_SECS = 0.2
#: For a service whose test is of something else: measuring the device is work.
NO_SELFTEST = {"TILEFARM_WORKER_SELFTEST_SECS": "0"}


@dataclass
class Service:
    """The embedded service as its user sees it."""

    process: subprocess.Popen[str] | None
    url: str
    token: str
    target: dict[str, Any]
    data_dir: Path

    @property
    def http(self) -> httpx.Client:
        headers = {"Authorization": f"Bearer {self.token}"}
        # Certificates that plain HTTP has not would take as long as all that a call is for.
        return httpx.Client(base_url=self.url, headers=headers, timeout=30.0, verify=False)

    def submit(self, body: dict[str, Any]) -> dict[str, Any]:
        answer = self.post("/v1/jobs", body)
        assert answer.status_code == 201, answer.text
        job: dict[str, Any] = answer.json()
        return job

    def job(self, job_id: str) -> dict[str, Any]:
        return self.get(f"/v1/jobs/{job_id}")

    def get(self, path: str, **params: Any) -> dict[str, Any]:
        with self.http as http:
            answer = http.get(path, params=params)
        assert answer.is_success, answer.text
        view: dict[str, Any] = answer.json()
        return view

    def post(self, path: str, body: dict[str, Any] | None = None) -> httpx.Response:
        with self.http as http:
            return http.post(path, json=body)

    def wait_job(self, job_id: str, *, timeout_secs: float = 120.0) -> dict[str, Any]:
        """Until the job has ended; a restarting API is waited for."""
        return self.wait_for(job_id, lambda job: JobState(job["state"]).ended, timeout_secs=timeout_secs)

    def wait_for(
        self, job_id: str, reached: Callable[[dict[str, Any]], bool], *, timeout_secs: float = 60.0
    ) -> dict[str, Any]:
        deadline = time.monotonic() + timeout_secs
        job: dict[str, Any] = {}
        while time.monotonic() < deadline:
            with contextlib.suppress(httpx.TransportError):
                job = self.job(job_id)
                if reached(job):
                    return job
            time.sleep(_POLL_SECS)
        raise AssertionError(f"not reached within {timeout_secs} s; the job is now {json.dumps(job)[:3000]}")

    def post_with_key(self, body: dict[str, Any], key: str) -> httpx.Response:
        with self.http as http:
            return http.post("/v1/jobs", json=body, headers={"Idempotency-Key": key})

    def trials(self, job_id: str) -> list[dict[str, Any]]:
        """All trials of a job, page by page."""
        trials: list[dict[str, Any]] = []
        params: dict[str, Any] = {"page_size": 200}
        while True:
            page = self.get(f"/v1/jobs/{job_id}/trials", **params)
            trials += page["trials"]
            if not page.get("next_page_token"):
                return trials
            params["page_token"] = page["next_page_token"]

    def part(self, name: str) -> psutil.Process:
        """The process of a role: api, tuner, worker or valkey."""
        assert self.process is not None
        for child in psutil.Process(self.process.pid).children():
            # One that was just killed may not be reaped yet: it has no command line any more.
            with contextlib.suppress(psutil.NoSuchProcess):
                words = child.cmdline()
                if words[-1:] == [name] or any(name in Path(word).name for word in words[:1]):
                    return child
        raise AssertionError(f"no process of the role {name}")

    def kill(self, name: str) -> None:
        self.part(name).send_signal(signal.SIGKILL)

    def tree(self) -> list[psutil.Process]:
        assert self.process is not None
        return _tree(self.process.pid)

    def log(self, name: str) -> str:
        return (self.data_dir / "logs" / f"{name}.log").read_text(errors="replace")


def accounted(job: dict[str, Any]) -> bool:
    """`submitted = queued + dispatched + done + failed + cancelled`."""
    trials = job["trials"]
    return bool(trials["submitted"] == sum(trials[state] for state in TrialState))


@contextmanager
def run_service(data_dir: Path, settings: Mapping[str, str] | None = None) -> Iterator[Service]:
    """An embedded service; at its end no process of it is left."""
    tree: list[psutil.Process] = []
    with launch(data_dir, settings) as launched:
        yield Service(
            process=launched.process,
            url=launched.url,
            token=launched.token,
            target=launched.target,
            data_dir=data_dir,
        )
        if launched.process.poll() is None:
            tree = _tree(launched.process.pid)
    _gone, alive = psutil.wait_procs(tree, timeout=5)
    assert not alive, f"orphans: {[(process.pid, process.cmdline()) for process in alive]}"
    assert not tree or launched.process.returncode == 0


def _tree(pid: int) -> list[psutil.Process]:
    root = psutil.Process(pid)
    return [root, *root.children(recursive=True)]
