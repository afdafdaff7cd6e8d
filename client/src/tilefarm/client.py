"""The service's nouns over HTTP: jobs, tasks, targets, workers, lookups. It needs no TVM.

`tilefarm.connect` is for compilers; this is for whoever submits and watches.
"""

import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from tilefarm.errors import BadAnswerError, DeadlineError, ModuleError, ProblemError
from tilefarm.http import READING_SECS, HttpSession
from tilefarm.jobs import Job
from tilefarm.settings import Settings

if TYPE_CHECKING:
    import httpx

_PAGE_SIZE = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How far a job may go."""

    max_trials: int
    max_trials_per_task: int | None = None
    #: -100 .. 100; higher is served first.
    priority: int = 0


class Client:
    """A session with one service. Every method raises the errors of tilefarm.errors."""

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        timeout_secs: float | None = None,
        transport: "httpx.BaseTransport | None" = None,
    ) -> None:
        self.settings = Settings.load(url=url, token=token, timeout_secs=timeout_secs)
        self.http = HttpSession(
            self.settings.require_url(),
            token=self.settings.token,
            timeout_secs=self.settings.timeout_secs,
            transport=transport,
        )

    @property
    def url(self) -> str:
        return self.http.url

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.http.close()

    def submit(
        self,
        module: Mapping[str, Any] | str,
        target: Mapping[str, Any] | str,
        limits: Limits,
        *,
        idempotency_key: str | None = None,
        **fields: Any,
    ) -> Job:
        """A job on a module's JSON; `fields` are further ones of POST /v1/jobs (name, seed, spaces, ...)."""
        body = {
            "module": module,
            "target": target,
            "max_trials": limits.max_trials,
            "max_trials_per_task": limits.max_trials_per_task,
            "priority": limits.priority,
            **fields,
        }
        return self.submit_body(body, idempotency_key=idempotency_key)

    def submit_body(self, body: Mapping[str, Any], *, idempotency_key: str | None = None) -> Job:
        """A job from a ready body of POST /v1/jobs. A lost answer cannot make a second job."""
        sent = {name: value for name, value in body.items() if value is not None}
        if not isinstance(sent.get("module"), str) and not _is_json(sent.get("module")):
            # TVM writes -Infinity, which JSON lacks: such a module travels as text.
            sent["module"] = json.dumps(sent["module"])
        if not _is_json(sent):
            raise ModuleError("the job holds what JSON lacks: NaN, an infinity, or endless nesting")
        return self._made("/v1/jobs", sent, idempotency_key, wait_secs=READING_SECS)

    def job(self, job_id: str) -> Job:
        return Job(self.http, self.http.get(f"/v1/jobs/{_segment(job_id)}"))

    def continue_job(self, job_id: str, *, max_trials: int, idempotency_key: str | None = None) -> Job:
        """A new job of the same tasks as one that has ended, its searches going on from what they know."""
        path = f"/v1/jobs/{_segment(job_id)}:continue"
        return self._made(path, {"max_trials": max_trials}, idempotency_key)

    def _made(
        self, path: str, body: Mapping[str, Any], idempotency_key: str | None, *, wait_secs: float = 0.0
    ) -> Job:
        key = idempotency_key or str(uuid.uuid4())
        try:
            return Job(self.http, self.http.ask(path, body, idempotency_key=key, wait_secs=wait_secs))
        except DeadlineError as error:
            said = f"{error}; under the idempotency key {key} a retry makes no second job"
            raise DeadlineError(said) from error

    def jobs(self, *, state: str | None = None, owner: str | None = None) -> Iterator[dict[str, Any]]:
        """Job views, newest first as the service orders them, without their tasks."""
        return self._pages("/v1/jobs", "jobs", state=state, owner=owner)

    def records(self, *, target_key: str, state: str) -> Iterator[dict[str, Any]]:
        """Record views of a target, newest first, without modules and traces."""
        return self._pages("/v1/records", "records", target_key=target_key, state=state)

    def record(self, record_id: str | int) -> dict[str, Any]:
        """A record view with its module (JSON text) and trace."""
        return self.http.get(f"/v1/records/{_segment(record_id)}")

    def _pages(self, path: str, noun: str, **params: Any) -> Iterator[dict[str, Any]]:
        params["page_size"] = _PAGE_SIZE
        while True:
            page = self.http.get(path, params=params)
            yield from _list(page, noun)
            if not page.get("next_page_token"):
                return
            params["page_token"] = page["next_page_token"]

    def task_record(self, task_id: str | int) -> dict[str, Any]:
        """The best record of a task, its trace as JSON and as Python."""
        return self.http.get(f"/v1/tasks/{_segment(task_id)}/record", wait_secs=READING_SECS)

    def targets(self) -> list[dict[str, Any]]:
        return _list(self.http.get("/v1/targets"), "targets")

    def target(self, name: str) -> dict[str, Any]:
        """{"name", "target": canonical form, "key", "workers_alive"} of a profile."""
        return self.http.get(f"/v1/targets/{_segment(name)}")

    def canonical_target(self, name: str) -> dict[str, Any]:
        """The canonical form of a profile's target."""
        found = self.target(name).get("target")
        if not isinstance(found, dict):
            raise BadAnswerError(f"the answer holds no canonical target of {name!r}")
        return found

    def workers(self) -> list[dict[str, Any]]:
        """Worker views by name, without those that left."""
        return list(self._pages("/v1/workers", "workers"))

    def version(self) -> dict[str, Any]:
        return self.http.get("/v1/version")

    def ready(self) -> None:
        """Loads what asking needs: so that the first deadline is the service's alone."""
        self.http.ready()

    def lookup(
        self, target: Mapping[str, Any] | str, *, tvm_version: str, workloads: Sequence[str]
    ) -> dict[str, Any]:
        """{"target", "target_key", "records": {shash: [record]}, "missing": [..]}."""
        body = {"target": target, "tvm_version": tvm_version, "workloads": list(workloads)}
        return self.http.ask("/v1/lookup", body)

    def lookup_near(
        self,
        target: Mapping[str, Any],
        *,
        tvm_version: str,
        workloads: Sequence[str],
        rules: Sequence[str],
        anchors: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """As `lookup`, with {"near": {shash: record with its rule and target}} of what is missing.

        `anchors` are the hashes of the workloads' anchor blocks, for the rule anchor-block.
        """
        body = {
            "target": dict(target),
            "tvm_version": tvm_version,
            "workloads": list(workloads),
            "near": list(rules),
            **({"anchors": dict(anchors)} if anchors else {}),
        }
        return self.http.ask("/v1/lookup", body)

    def expectations(
        self, target: Mapping[str, Any], *, tvm_version: str, workloads: Mapping[str, Mapping[str, float]]
    ) -> dict[str, Any]:
        """By structural hash what tuning would be expected to bring; `workloads` are {"flops", "size_bytes"}.

        A workload to which nothing tuned is similar is not there.
        """
        body = {"target": dict(target), "tvm_version": tvm_version, "workloads": dict(workloads)}
        found = self.http.ask("/v1/expectations", body).get("expectations")
        if not isinstance(found, dict):
            raise BadAnswerError("the service answers no expectations")
        return found

    def import_records(
        self,
        module: str,
        target: Mapping[str, Any],
        *,
        tvm_version: str,
        records: Sequence[Mapping[str, Any]],
        source: str,
    ) -> dict[str, Any]:
        """{"quarantined": [ids], "known": n, "refused": [..]}; each record has "trace" and "run_secs".

        Sending the same again is safe: what is known is not stored twice.
        """
        body = {
            "target": dict(target),
            "tvm_version": tvm_version,
            "module": module,
            "records": list(records),
            "source": source,
        }
        return self.http.ask("/v1/records:import", body, wait_secs=READING_SECS)

    def import_many(
        self, workloads: Sequence[Mapping[str, Any]], *, tvm_version: str, source: str
    ) -> list[dict[str, Any]]:
        """Of each workload ({"target", "module", "records"}) what `import_records` answers, under "taken".

        Or, under "refused", its {"code", "detail"}. Sending the same again is safe.
        """
        body = {"tvm_version": tvm_version, "source": source, "workloads": list(workloads)}
        found = self.http.ask("/v1/records:import-many", body, wait_secs=READING_SECS).get("workloads")
        if not isinstance(found, list) or len(found) != len(workloads):
            raise BadAnswerError("an import is not answered workload by workload")
        return found

    def verify_imports(
        self,
        target: Mapping[str, Any] | str,
        *,
        tvm_version: str,
        top: int = 3,
        workloads: Sequence[str] = (),
    ) -> dict[str, Any]:
        """{"job_id", "workloads": n, "records": [ids]}: the farm measures what was imported, on that job."""
        body = {"target": target, "tvm_version": tvm_version, "top": top, "workloads": list(workloads)}
        return self.http.post("/v1/records:verify", body)

    def lookup_if_changed(
        self, target: Mapping[str, Any], *, tvm_version: str, workloads: Sequence[str], etag: str
    ) -> dict[str, Any] | None:
        """As `lookup`; None where the answer would have this ETag still."""
        params = {
            "target": json.dumps(dict(target), separators=(",", ":")),
            "tvm_version": tvm_version,
            "workloads": ",".join(workloads),
        }
        return self.http.get_if_changed("/v1/lookup", params=params, etag=etag)


def _list(answer: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    items = answer.get(name)
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise BadAnswerError(f"the answer holds no list {name!r}")
    return items


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except (ValueError, RecursionError):
        return False
    return True


def _segment(name: str | int) -> str:
    """A name as one segment of a path."""
    text = str(name)
    if not text or not all(letter.isalnum() or letter in "._-" for letter in text):
        # As the service would say, if such a name could stand in a path.
        raise ProblemError(code="not_found", status=404, detail=f"{text!r} is no identifier of this service")
    return text
