"""The worker's side of the fleet: join, heartbeat, leave, over HTTP. It measures nothing."""

import math
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import httpx
import structlog

from workers.api_answer import read_answer
from workers.errors import AnswerUnreadable, JoinRefused
from workers.holding import Attempt
from workers.selftester import DeviceReport

_log = structlog.get_logger(__name__)
_TIMEOUT_SECS = 10.0
_LEAVE_TIMEOUT_SECS = 2.0
#: Of a heartbeat, in beats, and at least so many seconds: one that a network swallowed is followed by others
#: before the farm takes the worker for dead.
_BEATS_PER_TIMEOUT, _MIN_BEAT_TIMEOUT_SECS = 1.5, 1.0
_RETRY_SECS, _RETRY_MAX_SECS = 0.2, 2.0
#: Answers that no repetition changes.
_REFUSALS = frozenset({400, 401, 403, 409, 422})


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """What the API answers to a join."""

    worker_id: str
    target: dict[str, Any]
    queues: tuple[str, ...]
    #: None where the API leaves it to the worker's own setting.
    broker_url: str | None
    heartbeat_secs: float

    @classmethod
    def from_json(cls, obj: Mapping[str, Any]) -> Self:
        return cls(
            worker_id=str(obj["worker_id"]),
            target=dict(obj["target"]),
            queues=tuple(obj["queues"]),
            broker_url=obj["broker_url"],
            heartbeat_secs=float(obj.get("heartbeat_secs", 2.0)),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """What the API answers to a heartbeat."""

    drop: tuple[Attempt, ...]
    drain: bool
    #: Of the searches whose trials are held, by id.
    best_latency_secs: Mapping[int, float]

    @classmethod
    def from_json(cls, obj: Mapping[str, Any]) -> Self:
        """Raises what read_answer catches."""
        bests = {int(search): float(secs) for search, secs in obj.get("best_latency_secs", {}).items()}
        if not all(math.isfinite(secs) and secs > 0 for secs in bests.values()):
            raise ValueError("a best latency that is none")
        return cls(
            drop=tuple(Attempt(int(trial_id), int(attempt)) for trial_id, attempt in obj["drop"]),
            drain=bool(obj["drain"]),
            best_latency_secs=bests,
        )


class Membership:
    """Joins under one name, again whenever the API has forgotten it. Thread-safe."""

    def __init__(self, *, url: str, token: str, announcement: Mapping[str, Any]) -> None:
        self._announcement = dict(announcement)
        self._client = httpx.Client(
            base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=_TIMEOUT_SECS
        )
        self._lock = threading.Lock()
        self._joined: Joined | None = None
        #: Of the device, as the API has them besides the announcement's.
        self._told_facts: dict[str, Any] = {}

    @property
    def name(self) -> str:
        """Unique in the fleet."""
        return str(self._announcement["name"])

    @property
    def worker_id(self) -> str:
        """As of the latest join."""
        joined = self._joined
        if joined is None:
            raise JoinRefused("the worker has not joined yet")
        return joined.worker_id

    def join(self, *, stopped: threading.Event) -> Joined | None:
        """Join, waiting for the API as long as it takes; None when stopped meanwhile. Raises JoinRefused."""
        pause_secs = _RETRY_SECS
        while not stopped.is_set():
            try:
                return self._join()
            except (httpx.HTTPError, AnswerUnreadable) as error:
                _log.warning("join_failed", url=str(self._client.base_url), reason=str(error))
            stopped.wait(pause_secs)
            pause_secs = min(2 * pause_secs, _RETRY_MAX_SECS)
        return None

    def heartbeat(
        self, *, holding: Sequence[Attempt], stage_secs: Mapping[str, float], report: DeviceReport
    ) -> Orders:
        """Tell what is held, and of the device what is new.

        Joins again where the API knows this worker no more. Raises httpx.HTTPError, AnswerUnreadable.
        """
        body: dict[str, Any] = {
            "holding": [list(attempt) for attempt in holding],
            "stage_secs": dict(stage_secs),
            "quarantined": report.quarantined,
        }
        if report.facts != self._told_facts:
            body["facts"] = report.facts
        every_secs = 0.0 if self._joined is None else self._joined.heartbeat_secs
        timeout_secs = max(_BEATS_PER_TIMEOUT * every_secs, _MIN_BEAT_TIMEOUT_SECS)
        path = f"/v1/workers/{self.worker_id}:heartbeat"
        response = self._client.post(path, json=body, timeout=min(timeout_secs, _TIMEOUT_SECS))
        if response.status_code == httpx.codes.NOT_FOUND:
            _log.warning("worker_forgotten", worker_id=self.worker_id)
            self._join()
            return Orders(drop=(), drain=False, best_latency_secs={})
        response.raise_for_status()
        orders = read_answer(response, Orders.from_json)
        self._told_facts = report.facts
        return orders

    def leave(self) -> None:
        """Tell the API that this worker ends; says so at most once and does not insist."""
        joined, self._joined = self._joined, None
        try:
            if joined is not None:
                path = f"/v1/workers/{joined.worker_id}:leave"
                self._client.post(path, json={}, timeout=_LEAVE_TIMEOUT_SECS)
        except httpx.HTTPError as error:
            _log.warning("leave_failed", reason=str(error))
        finally:
            self._client.close()

    def _join(self) -> Joined:
        response = self._client.post("/v1/workers:join", json=self._announcement)
        if response.status_code in _REFUSALS:
            raise JoinRefused(f"the API refused this worker: {response.status_code} {response.text[:1000]}")
        response.raise_for_status()
        joined = read_answer(response, Joined.from_json)
        self._joined, self._told_facts = joined, {}
        _log.info("worker_joined", worker_id=joined.worker_id, queues=joined.queues)
        return joined
