"""/v1/expectations: what tuning workloads would be expected to bring. Nothing is promised by it."""

from fastapi import APIRouter

from db.session import reading
from db.tuned import tuned_workloads
from services.api.auth import RecordsReader
from services.api.deps import EngineDep, IntakeDep, SettingsDep
from services.api.errors import InvalidError
from services.api.expectation import Work, expect, known
from services.api.schemas_expectations import AskExpectations, ExpectationAnswer, ExpectationView
from services.api.targets import AskOnDemand, resolve

router = APIRouter(prefix="/v1/expectations", tags=["lookup"])
#: Tuned workloads that are looked at.
_MOST_TUNED = 2_000


@router.post("")
def expectations(
    body: AskExpectations, token: RecordsReader, engine: EngineDep, intake: IntakeDep, settings: SettingsDep
) -> ExpectationAnswer:
    """By the most similar workloads that were tuned for exactly this target; a workload may have none."""
    del token
    if len(body.workloads) > settings.max_lookup_workloads:
        most = settings.max_lookup_workloads
        raise InvalidError("too_many_workloads", f"at most {most} workloads are asked about at once")
    target = resolve(engine, body.target, AskOnDemand(intake))
    with reading(engine) as session:
        tuned = known(
            tuned_workloads(session, target_key=target.key, tvm_version=body.tvm_version, limit=_MOST_TUNED)
        )
    found = {
        shash: expect(Work(flops=work.flops, size_bytes=work.size_bytes), tuned)
        for shash, work in body.workloads.items()
    }
    return ExpectationAnswer(
        target_key=target.key,
        expectations={
            shash: ExpectationView.model_validate(expectation, from_attributes=True)
            for shash, expectation in found.items()
            if expectation is not None
        },
    )
