"""/v1/lookup, /v1/targets: the compile-time question. Exactly the asked target and TVM version, or a miss."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from fastapi import APIRouter

from db.profiles import list_profiles
from db.records import Near, current_records, near_records
from db.session import reading
from db.targets import workers_alive
from services.api.auth import AnyToken, RecordsReader
from services.api.deps import EngineDep, IntakeDep, SettingsDep
from services.api.errors import InvalidError, NotFoundError
from services.api.ids import ProfileName
from services.api.intake import Intake
from services.api.record_views import found_record
from services.api.schemas_records import (
    FoundRecord,
    Lookup,
    LookupAnswer,
    Missing,
    ProfileList,
    ProfileView,
)
from services.api.targets import NamedTarget, resolve

router = APIRouter(prefix="/v1", tags=["lookup"])


class _AskOnDemand:
    """Opens a child only for what needs TVM: a tag. A target's own form is enough to look records up."""

    def __init__(self, intake: Intake) -> None:
        self._intake = intake

    def target(self, target: Mapping[str, Any]) -> dict[str, Any]:
        if set(target) != {"tag"}:
            return dict(target)
        with self._intake.open() as child:
            return child.target(target)


@router.post("/lookup")
def look_up(
    body: Lookup, token: RecordsReader, engine: EngineDep, intake: IntakeDep, settings: SettingsDep
) -> LookupAnswer:
    """The current published records of many workloads at once, and for each miss what there is instead."""
    del token
    if len(body.workloads) > settings.max_lookup_workloads:
        raise InvalidError(
            "too_many_workloads", f"a lookup asks for at most {settings.max_lookup_workloads} workloads"
        )
    target = resolve(engine, body.target, _AskOnDemand(intake))
    shashes = list(dict.fromkeys(body.workloads))
    with reading(engine) as session:
        records = current_records(
            session, target_key=target.key, tvm_version=body.tvm_version, shashes=shashes
        )
        found: dict[str, list[FoundRecord]] = {}
        for record in records:
            found.setdefault(record.shash, []).append(found_record(record, json.loads(record.trace)))
        missing = [shash for shash in shashes if shash not in found]
        near = near_records(session, missing) if missing else []
    return LookupAnswer(
        target=target.canonical,
        target_key=target.key,
        records=found,
        missing=[_missing(shash, near, target, body.tvm_version) for shash in missing],
    )


@router.get("/targets")
def list_targets(token: AnyToken, engine: EngineDep, settings: SettingsDep) -> ProfileList:
    """The profiles that workers have brought along."""
    del token
    return ProfileList(targets=_profiles(engine, settings))


@router.get("/targets/{name}")
def show_target(name: ProfileName, token: AnyToken, engine: EngineDep, settings: SettingsDep) -> ProfileView:
    """The exact target of a profile."""
    del token
    for profile in _profiles(engine, settings):
        if profile.name == name:
            return profile
    raise NotFoundError("unknown_target", f"there is no profile {name}")


def _profiles(engine: EngineDep, settings: SettingsDep) -> list[ProfileView]:
    with reading(engine) as session:
        alive = workers_alive(session, dead_after_secs=settings.dead_after_secs)
        return [
            ProfileView(
                name=profile.name,
                target=profile.target.canonical,
                key=profile.target.key,
                workers_alive=alive.get(profile.target.id, 0),
            )
            for profile in list_profiles(session)
        ]


def _missing(shash: str, near: Iterable[Near], target: NamedTarget, tvm_version: str) -> Missing:
    there = [found for found in near if found.shash == shash]
    same_target = next((found for found in there if found.target_key == target.key), None)
    if same_target is not None:
        nearest = f"TVM {same_target.tvm_version}, same target"
    elif there:
        nearest = f"TVM {there[0].tvm_version}, target {json.dumps(there[0].target, sort_keys=True)}"
    else:
        nearest = None
    form = json.dumps(target.canonical, sort_keys=True)
    hint = f"no record of {shash} for {form} and TVM {tvm_version}; `tilefarm submit` its module to tune it"
    return Missing(shash=shash, nearest=nearest, hint=hint)
