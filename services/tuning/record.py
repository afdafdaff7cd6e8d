"""Records what workers report: each outcome once, by compare-and-set, acknowledged after the commit.

A message that cannot be read is logged and acknowledged: it may never block those behind it. It judges no
result and asks for no trial again.
"""

import dataclasses
import json
import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import structlog
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from db import attempts, building, searches, shares
from db.reports import Measured, Reports, TrialPlace
from db.session import transaction
from db.states import Outcome
from services.tuning.dispatch import device_secs
from workers.messages import (
    MAX_ERROR_CHARS,
    MessageError,
    Result,
    TrialBuilt,
    TrialOutcome,
    TrialStarted,
    TrialUnbuilt,
    result_from_json,
)

_log = structlog.get_logger(__name__)

_MAX_ID = (1 << 63) - 1
_MAX_ATTEMPT = (1 << 31) - 1
_MAX_SECS = 1e9
#: Deliveries of a trial after which a lost artifact is no accident any more.
MAX_ATTEMPTS = 64


def read_result(body: bytes | str) -> Result:
    """A result that fits its row; raises MessageError otherwise."""
    try:
        obj = json.loads(body)
        result = result_from_json(obj if isinstance(obj, dict) else {})
    except MessageError:
        raise
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise MessageError(f"it does not read: {error}") from error
    _check(result)
    return result


def record(engine: Engine, results: Sequence[Result]) -> set[str]:
    """Write results in one transaction; returns the jobs in which something changed."""
    with transaction(engine) as session:
        reports = Reports.open(session, {result.trial_id for result in results})
        taken = [result for result in results if _take(session, reports, result)]
        reports.write()
        _add_up(session, reports.places, taken)
    return {reports.places[result.trial_id].job_id for result in taken}


def _take(session: Session, reports: Reports, result: Result) -> bool:
    """Whether it changes something."""
    place = reports.places.get(result.trial_id)
    taken = place is not None and _report(session, reports, place, result)
    _log.info("result_recorded" if taken else "result_ignored", **_ids(result, place))
    return taken


def _add_up(session: Session, places: Mapping[int, TrialPlace], taken: Sequence[Result]) -> None:
    """Seconds by stage of searches, and device-seconds of owners."""
    spent: dict[int, Counter[str]] = defaultdict(Counter)
    used: dict[tuple[str, int], float] = defaultdict(float)
    for result in taken:
        place = places[result.trial_id]
        if isinstance(result, TrialOutcome | TrialBuilt):
            spent[place.search_id].update(result.stage_secs)
        if isinstance(result, TrialOutcome):
            used[place.owner, place.target_id] += device_secs(result.stage_secs)
    searches.add_stage_secs(session, spent)
    shares.add_usage(session, {whose: secs for whose, secs in used.items() if secs})


def measured(result: TrialOutcome, built_secs: Mapping[str, float] | None = None) -> Measured:
    """An outcome as its row holds it. Ok without times is a fault of the worker's, and said so.

    `built_secs`: seconds by stage of the worker that built it for this one.
    """
    stage_secs = Counter(built_secs or {})
    stage_secs.update(result.stage_secs)
    outcome, error = result.outcome, result.error
    run_secs = _times(result.run_secs)
    if outcome is Outcome.OK and run_secs is None:
        outcome, error = Outcome.RUN_ERROR, "the worker reported ok without usable times"
    timed = outcome in (Outcome.OK, Outcome.CUT_OFF) and run_secs is not None
    return Measured(
        trial_id=result.trial_id,
        attempt=result.attempt,
        worker_id=fitting_text(result.worker_id, 40),
        outcome=outcome,
        run_secs=run_secs if timed else None,
        latency_secs=statistics.median(run_secs) if timed and run_secs is not None else None,
        incumbent_run_secs=_times(result.incumbent_run_secs),
        error=None if error is None else fitting_text(error, MAX_ERROR_CHARS),
        stage_secs=stage_secs,
        device_class=fitting_text(result.device_class, 200),
        tvm_version=fitting_text(result.tvm_version, 40),
    )


def _report(session: Session, reports: Reports, place: TrialPlace, result: Result) -> bool:
    trial_id, attempt = result.trial_id, result.attempt
    if isinstance(result, TrialStarted):
        return reports.started(trial_id, attempt=attempt, worker_id=fitting_text(result.worker_id, 40))
    if isinstance(result, TrialOutcome):
        return reports.measured(measured(result, place.stage_secs))
    reports.write()
    if isinstance(result, TrialUnbuilt):
        done = _build_again(session, result)
    else:
        built, stage_secs = dataclasses.asdict(result.built), result.stage_secs
        done = building.record_built(session, trial_id, attempt=attempt, built=built, stage_secs=stage_secs)
    if done:
        reports.forget(trial_id)
    return done


def _build_again(session: Session, result: TrialUnbuilt) -> bool:
    """It is made anew, by another worker; where that happens again and again, the farm does not work."""
    _log.warning("trial_unbuilt", trial_id=result.trial_id, attempt=result.attempt, reason=result.reason)
    if result.attempt < MAX_ATTEMPTS:
        return building.record_unbuilt(session, result.trial_id, attempt=result.attempt)
    reason = fitting_text(result.reason, 1000)
    error = f"what was built of it was lost again and again, the last time: {reason}"
    return attempts.give_up(session, result.trial_id, attempt=result.attempt, error=error)


def _ids(result: Result, place: TrialPlace | None) -> dict[str, Any]:
    """By which a trial is followed through the logs of all processes."""
    found: dict[str, Any] = {"kind": type(result).__name__, "trial_id": result.trial_id}
    found |= {"attempt": result.attempt, "worker_id": result.worker_id}
    if isinstance(result, TrialOutcome):
        found["outcome"] = result.outcome
    if place is None:
        return found
    return found | {"job_id": place.job_id, "task_id": place.task_id, "search_id": place.search_id}


def _check(result: Result) -> None:
    """Types and ranges that no row would take; the fields of a message are not typed when read."""
    if not _is_count(result.trial_id, _MAX_ID) or not _is_count(result.attempt, _MAX_ATTEMPT):
        raise MessageError("trial_id or attempt is no row's")
    texts = [result.worker_id]
    if isinstance(result, TrialOutcome):
        texts += [result.device_class, result.tvm_version]
        texts += [] if result.error is None else [result.error]
    if isinstance(result, TrialUnbuilt):
        texts.append(result.reason)
    if isinstance(result, TrialOutcome | TrialBuilt) and not _are_secs(result.stage_secs):
        raise MessageError("stage_secs is not seconds by stage")
    if not all(isinstance(text, str) for text in texts):
        raise MessageError("a text field holds no text")


def _is_count(value: object, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most


def _are_secs(stages: object) -> bool:
    return isinstance(stages, Mapping) and all(
        stage.isprintable() and isinstance(secs, int | float) and 0 <= secs <= _MAX_SECS
        for stage, secs in stages.items()
    )


def _times(secs: Iterable[float] | None) -> tuple[float, ...] | None:
    """Times that mean something: positive and finite, else none at all."""
    times = tuple(secs or ())
    return times if times and all(math.isfinite(time) and time > 0 for time in times) else None


def fitting_text(text: str, most: int) -> str:
    """What a text column takes: no NUL, which PostgreSQL does not know, and no half of a character."""
    return text[:most].replace("\x00", "�").encode(errors="replace").decode()
