"""From quarantined imports to a job that measures them again: the tuner service publishes what holds.

The job is one like any other: it is watched, paused and cancelled, and its trials are charged to who asked.
"""

import dataclasses
import itertools

from sqlalchemy import Engine
from sqlalchemy.orm import Session

from db import imports
from db.imports import Import
from db.jobs import NewJob, insert_job
from db.session import transaction
from db.targets import find_target
from db.tasks import NewTask, SearchKey, find_or_make_search, insert_task
from services.api.errors import NotFoundError
from services.api.intake import Intake
from services.api.schemas_imports import VerifyAnswer, VerifyImports
from services.api.targets import AskOnDemand, NamedTarget, resolve
from workers.messages import MeasurePolicy

#: Imports of one job.
_MAX_IMPORTS = 2000


def verify_imports(request: VerifyImports, asker: str, *, engine: Engine, intake: Intake) -> VerifyAnswer:
    """Raises NotFoundError where nothing waits to be measured."""
    target = resolve(engine, request.target, AskOnDemand(intake))
    with transaction(engine) as session:
        stored = find_target(session, target.key)
        found = [] if stored is None else _unverified(session, request, stored.id)
        if stored is None or not found:
            raise NotFoundError(
                "nothing_to_verify", f"no imported record for {target.name} waits to be measured"
            )
        job_id = insert_job(session, _job(request, asker, target, target_id=stored.id, count=len(found)))
        groups = itertools.groupby(found, key=lambda each: each.workload_id)
        for ordinal, (_, of_one) in enumerate(groups):
            _add_task(session, list(of_one), target, job_id=job_id, target_id=stored.id, ordinal=ordinal)
    return VerifyAnswer(
        job_id=job_id,
        workloads=len({each.workload_id for each in found}),
        records=[each.record_id for each in found],
    )


def _unverified(session: Session, request: VerifyImports, target_id: int) -> list[Import]:
    return imports.unverified(
        session,
        target_id=target_id,
        tvm_version=request.tvm_version,
        shashes=request.workloads,
        top=request.top,
        limit=_MAX_IMPORTS,
    )


def _job(request: VerifyImports, asker: str, target: NamedTarget, *, target_id: int, count: int) -> NewJob:
    return NewJob(
        name=f"verify {count} imports",
        owner=asker,
        target_id=target_id,
        target_name=target.name,
        priority=request.priority,
        max_trials=count,
        max_trials_per_task=None,
        strategy=imports.IMPORTED,
        seed=0,
        options={},
        warnings=[],
    )


def _add_task(
    session: Session, of_one: list[Import], target: NamedTarget, *, job_id: str, target_id: int, ordinal: int
) -> None:
    """A task for a workload, on the search that measures these of its imports."""
    first = of_one[0]
    key = SearchKey(
        workload_id=first.workload_id,
        target_id=target_id,
        target_key=target.key,
        tvm_version=first.tvm_version,
        space=None,
        space_hash="",
        strategy=imports.IMPORTED,
        seed=0,
        policy=dataclasses.asdict(MeasurePolicy()),
        options={},
        isolation_key="",
    )
    ids = [each.record_id for each in of_one]
    search_id = find_or_make_search(session, imports.search_key(key, ids))
    imports.mark_asked(session, ids, search_id=search_id)
    name = first.name or first.shash
    insert_task(
        session,
        NewTask(
            job_id=job_id,
            ordinal=ordinal,
            name=name,
            weight=1.0,
            workload_id=first.workload_id,
            search_id=search_id,
        ),
    )
