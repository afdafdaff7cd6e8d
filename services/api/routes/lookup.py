"""/v1/lookup, /v1/targets: the compile-time question. Exactly the asked target and TVM version, or a miss."""

import gzip
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Query, Response
from pydantic import ValidationError
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from checks.target_family import NearRule, distance, near_by
from db.profiles import list_profiles
from db.records import Near, anchored_records, current_records, near_records, read_records
from db.session import reading
from db.targets import workers_alive
from services.api.auth import AnyToken, RecordsReader
from services.api.deps import EngineDep, IntakeDep, SettingsDep, TrafficDep
from services.api.errors import InvalidError, NotFoundError
from services.api.ids import ProfileName
from services.api.intake import Intake
from services.api.lookup_traffic import LookupTraffic
from services.api.record_views import found_record, lookup_etag, near_record
from services.api.schemas_records import (
    FoundRecord,
    Lookup,
    LookupAnswer,
    Missing,
    NearRecord,
    ProfileList,
    ProfileView,
)
from services.api.settings import ApiSettings
from services.api.targets import AskOnDemand, NamedTarget, resolve

router = APIRouter(prefix="/v1", tags=["lookup"])
_WORTH_COMPRESSING_BYTES = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shared:
    """What both forms of the question need besides it."""

    engine: Engine
    intake: Intake
    settings: ApiSettings
    traffic: LookupTraffic
    accept_encoding: str


async def _shared(
    token: RecordsReader,
    engine: EngineDep,
    intake: IntakeDep,
    settings: SettingsDep,
    traffic: TrafficDep,
    accept_encoding: Annotated[str, Header(include_in_schema=False)] = "",
) -> _Shared:
    del token
    return _Shared(
        engine=engine, intake=intake, settings=settings, traffic=traffic, accept_encoding=accept_encoding
    )


@router.post("/lookup", response_model=LookupAnswer)
def look_up(body: Lookup, shared: Annotated[_Shared, Depends(_shared)]) -> Response:
    """The current published records of many workloads at once, and for each miss what there is instead."""
    answer = _answer(body, shared)
    return _response(answer, _etag(answer, body.tvm_version), shared.accept_encoding)


@router.get(
    "/lookup", response_model=LookupAnswer, responses={304: {"description": "Nothing of it has changed."}}
)
def look_up_again(
    shared: Annotated[_Shared, Depends(_shared)],
    target: Annotated[str, Query(max_length=8_000, description="a profile, a tag, or a target as JSON")],
    tvm_version: Annotated[str, Query(max_length=40)],
    workloads: Annotated[str, Query(max_length=200_000, description="structural hashes, a comma list")] = "",
    if_none_match: Annotated[str, Header()] = "",
) -> Response:
    """The same question, for whoever kept an earlier answer: 304 where it would be given again."""
    body = _parsed(target, tvm_version, workloads)
    answer = _answer(body, shared)
    etag = _etag(answer, body.tvm_version)
    if _opaque(etag) in (_opaque(tag) for tag in if_none_match.split(",")):
        return Response(status_code=304, headers={"ETag": etag})
    return _response(answer, etag, shared.accept_encoding)


def _answer(body: Lookup, shared: _Shared) -> LookupAnswer:
    most = shared.settings.max_lookup_workloads
    if len(body.workloads) > most:
        raise InvalidError("too_many_workloads", f"a lookup asks for at most {most} workloads")
    target = resolve(shared.engine, body.target, AskOnDemand(shared.intake))
    shashes = list(dict.fromkeys(body.workloads))
    with reading(shared.engine) as session:
        records = current_records(
            session, target_key=target.key, tvm_version=body.tvm_version, shashes=shashes
        )
        found: dict[str, list[FoundRecord]] = {}
        for record in records:
            found.setdefault(record.shash, []).append(found_record(record, json.loads(record.trace)))
        missing = [shash for shash in shashes if shash not in found]
        near = near_records(session, missing) if missing else []
        nearest = _nearest(session, near, target, body)
        nearest |= _anchored(session, [shash for shash in missing if shash not in nearest], target, body)
    elsewhere = {each.shash for each in near}
    shared.traffic.note(
        target_key=target.key,
        target=target.canonical,
        tvm_version=body.tvm_version,
        hits=len(found),
        missed={shash: shash in elsewhere for shash in missing},
    )
    return LookupAnswer(
        target=target.canonical,
        target_key=target.key,
        records=found,
        near=nearest,
        missing=_missing(missing, near, target, body.tvm_version),
    )


def _nearest(
    session: Session, near: Iterable[Near], target: NamedTarget, body: Lookup
) -> dict[str, NearRecord]:
    """Of each missing workload the record of the nearest target, by the rules that were asked for."""
    chosen: dict[str, Near] = {}
    for found in near:
        rule = near_by(target.canonical, found.target) if found.tvm_version == body.tvm_version else None
        if rule is None or rule not in body.near:
            continue
        best = chosen.get(found.shash)
        if best is None or distance(target.canonical, found.target) < distance(target.canonical, best.target):
            chosen[found.shash] = found
    records = read_records(session, {found.record_id for found in chosen.values()}) if chosen else []
    answers = {}
    for record in records:
        rule = near_by(target.canonical, record.target)
        assert rule is not None
        answers[record.shash] = near_record(record, rule)
    return answers


def _anchored(
    session: Session, missing: Iterable[str], target: NamedTarget, body: Lookup
) -> dict[str, NearRecord]:
    """Of each workload the newest record of another one with its anchor block, where that was asked for."""
    if NearRule.ANCHOR_BLOCK not in body.near:
        return {}
    wanted = {shash: body.anchors[shash] for shash in missing if shash in body.anchors}
    found = anchored_records(
        session, set(wanted.values()), target_key=target.key, tvm_version=body.tvm_version
    )
    records = {record.id: record for record in read_records(session, set(found.values()))}
    return {
        shash: near_record(records[found[anchor]], NearRule.ANCHOR_BLOCK)
        for shash, anchor in wanted.items()
        if anchor in found
    }


def _parsed(target: str, tvm_version: str, workloads: str) -> Lookup:
    """The body of a POST that asks the same. Raises InvalidError."""
    try:
        asked = json.loads(target) if target.lstrip().startswith("{") else target
        return Lookup(
            target=asked,
            tvm_version=tvm_version,
            workloads=[shash for shash in workloads.split(",") if shash],
        )
    except (ValidationError, ValueError, RecursionError):
        raise InvalidError("bad_lookup", "target, tvm_version or workloads do not read") from None


def _etag(answer: LookupAnswer, tvm_version: str) -> str:
    etags = {shash: " ".join(record.etag for record in found) for shash, found in answer.records.items()}
    etags |= {miss.shash: "" for miss in answer.missing}
    return lookup_etag(answer.target_key, tvm_version, etags)


def _opaque(etag: str) -> str:
    return etag.strip().removeprefix("W/")


def _response(answer: LookupAnswer, etag: str, accept_encoding: str) -> Response:
    """Gzip for whoever takes it: modules and traces are ten times smaller then."""
    content = answer.model_dump_json().encode()
    headers = {"ETag": etag, "Vary": "Accept-Encoding", "Cache-Control": "private, no-cache"}
    if len(content) > _WORTH_COMPRESSING_BYTES and _takes_gzip(accept_encoding):
        content = gzip.compress(content, compresslevel=1, mtime=0)
        headers["Content-Encoding"] = "gzip"
    return Response(content, media_type="application/json", headers=headers)


def _takes_gzip(accept_encoding: str) -> bool:
    for part in accept_encoding.lower().split(","):
        name, _, quality = part.partition(";")
        if name.strip() in ("gzip", "*"):
            return quality.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False


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


def _missing(
    shashes: Iterable[str], near: Iterable[Near], target: NamedTarget, tvm_version: str
) -> list[Missing]:
    asked = f"{json.dumps(target.canonical, sort_keys=True)} and TVM {tvm_version}"
    there: dict[str, list[Near]] = {}
    for found in near:
        there.setdefault(found.shash, []).append(found)
    return [
        Missing(
            shash=shash,
            nearest=_words(there.get(shash, []), target),
            hint=f"no record of {shash} for {asked}; `tilefarm submit` its module to tune it",
        )
        for shash in shashes
    ]


def _words(there: list[Near], target: NamedTarget) -> str | None:
    """What there is instead of a workload's record."""
    same_target = next((found for found in there if found.target_key == target.key), None)
    if same_target is not None:
        return f"TVM {same_target.tvm_version}, same target"
    if there:
        return f"TVM {there[0].tvm_version}, target {json.dumps(there[0].target, sort_keys=True)}"
    return None
