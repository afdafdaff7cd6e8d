"""mode="read-write": what a tuning run of this process measured goes to the service, into quarantine.

No lookup returns it there. In this process the records stay in memory, for the search that goes on.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tilefarm import module
from tilefarm import target as targets
from tilefarm.background import Background
from tilefarm.client import Client
from tilefarm.errors import ModuleError, TargetError, TilefarmError, TraceError
from tilefarm.trace import renamed
from tilefarm.trace_check import check_trace

#: Records of one request.
_BATCH = 64
#: Stock commits a failure as 1e10 seconds.
_FAILED_SECS = 1e9
#: A tuning run took minutes; its end may wait this long for the last records to be sent.
_LEAVE_SECS = 15.0
_log = logging.getLogger("tilefarm")


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A record in plain data."""

    shash: str
    module: str
    target: Mapping[str, Any]
    trace: Any
    run_secs: list[float]

    @classmethod
    def of(cls, record: Any) -> "Measured | None":
        """None where it measured nothing, or is nothing that the service takes."""
        run_secs = [float(secs) for secs in record.run_secs or ()]
        if record.target is None or not run_secs or not all(0 < secs < _FAILED_SECS for secs in run_secs):
            return None
        trace = targets.plain(record.trace.as_json())
        try:
            check_trace(trace)
            workload = module.workload_of(record.workload.mod)
            target = targets.of_tvm(record.target)
        except (TraceError, ModuleError, TargetError) as error:
            _log.debug("a record is not sent to the service: %s", error)
            return None
        return cls(
            shash=workload.shash,
            module=module.to_json(workload.module),
            target=target,
            trace=renamed(trace, "main"),
            run_secs=run_secs,
        )


class Contributor:
    def __init__(self, client: Client) -> None:
        self._client = client
        self._background: Background[Measured] = Background(self._send, leave_secs=_LEAVE_SECS)

    def contribute(self, record: Any) -> None:
        """Of a tvm TuningRecord; returns at once."""
        measured = Measured.of(record)
        if measured is not None:
            self._background.put(measured)

    def leave(self) -> None:
        self._background.leave()

    def _send(self, measured: list[Measured]) -> None:
        groups: dict[tuple[str, str], list[Measured]] = {}
        for one in measured:
            groups.setdefault((one.shash, targets.key(one.target)), []).append(one)
        for group in groups.values():
            for start in range(0, len(group), _BATCH):
                self._send_batch(group[start : start + _BATCH])

    def _send_batch(self, batch: list[Measured]) -> None:
        try:
            answer = self._client.import_records(
                batch[0].module,
                batch[0].target,
                tvm_version=module.tvm_version(),
                records=[{"trace": one.trace, "run_secs": one.run_secs} for one in batch],
                source="commit_tuning_record",
            )
        except TilefarmError as error:
            _log.warning("%d records of %s were not sent: %s", len(batch), batch[0].shash, error)
        else:
            _log.info(
                "%s records of %s are in quarantine", len(answer.get("quarantined") or []), batch[0].shash
            )
