"""Counts how lookups end, in memory, and writes it down every few seconds: a lookup itself writes nothing.

Of a process that is killed the last seconds are not counted; nobody decides anything by these numbers.
"""

import threading
from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

import structlog
from sqlalchemy import Engine, select
from sqlalchemy.exc import SQLAlchemyError

from db.clock import utc_now
from db.lookup_traffic import MissKey, Traffic, add_traffic
from db.session import transaction

_log = structlog.get_logger(__name__)
_WRITE_SECS = 2.0
#: Missed workloads between two writes; beyond them only the sums count.
_MAX_KEYS = 2_000


class LookupTraffic:
    """Shared by all handlers of the process; its thread begins with the first lookup."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._totals: Counter[tuple[str, str]] = Counter()
        self._missed: Counter[MissKey] = Counter()
        self._targets: dict[str, Mapping[str, Any]] = {}
        self._timer: threading.Timer | None = None
        self._closed = False

    def note(
        self,
        *,
        target_key: str,
        target: Mapping[str, Any],
        tvm_version: str,
        hits: int,
        missed: Mapping[str, bool],
    ) -> None:
        """One lookup; `missed` says of each workload without a record whether something was near."""
        near = sum(missed.values())
        with self._lock:
            self._targets[target_key] = target
            self._totals[target_key, "hits"] += hits
            self._totals[target_key, "near"] += near
            self._totals[target_key, "misses"] += len(missed) - near
            for shash in _some(missed, _MAX_KEYS - len(self._missed)):
                self._missed[MissKey(shash=shash, target_key=target_key, tvm_version=tvm_version)] += 1
            if self._timer is None and not self._closed:
                self._timer = threading.Timer(_WRITE_SECS, self.write)
                self._timer.daemon = True
                self._timer.start()

    def write(self) -> None:
        """What was counted since the last time; where the database is away, it is lost."""
        with self._lock:
            totals, missed, targets = self._totals, self._missed, self._targets
            self._totals, self._missed, self._targets = Counter(), Counter(), {}
            self._timer = None
        if not targets:
            return
        traffic = {
            key: Traffic(hits=totals[key, "hits"], near=totals[key, "near"], misses=totals[key, "misses"])
            for key in targets
        }
        try:
            with transaction(self._engine) as session:
                now = session.scalars(select(utc_now())).one()
                hour = now.replace(minute=0, second=0, microsecond=0)
                add_traffic(session, traffic, missed, targets, hour=hour)
        except SQLAlchemyError as error:
            _log.warning("lookup_traffic_not_written", reason=str(error)[:500])

    def close(self) -> None:
        with self._lock:
            self._closed = True
            if self._timer is not None:
                self._timer.cancel()
        self.write()


def _some(missed: Collection[str], room: int) -> list[str]:
    return list(missed)[: max(0, room)]
