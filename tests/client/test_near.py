"""Near hits: only by a rule that was named, labelled, counted apart, under every guard of an exact one."""

import json
import logging
from typing import Any

import httpx
import pytest

import tilefarm
from tests.client.conftest import TARGET, FakeService, database, record
from tests.client.test_database import SHASH, compiled, is_tuned
from tests.client.test_signatures import SIGNER, signed
from tilefarm import target as targets

FOUR_CORES = {**TARGET, "num-cores": 4}
HASWELL = {**TARGET, "mcpu": "haswell"}


def near(rule: str, target: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return record(**changes) | {"rule": rule, "target": target, "target_key": targets.key(target)}


@pytest.fixture
def farm(service: FakeService) -> FakeService:
    """It has no exact record; near ones are those of `farm.near`, whatever rules were named."""
    service.records.clear()
    service.near = {SHASH: near("num-cores", FOUR_CORES)}  # type: ignore[attr-defined]

    def look_up(request: httpx.Request) -> httpx.Response:
        asked = json.loads(request.content)
        answer = service._lookup(asked)
        return httpx.Response(200, json=answer | {"near": service.near if asked.get("near") else {}})  # type: ignore[attr-defined]

    service.routes["POST /v1/lookup"] = look_up
    return service


def test_without_a_rule_there_is_no_near_hit(farm: FakeService) -> None:
    assert compiled(database(farm, on_miss="silent")) is None
    assert all("near" not in body for body in farm.bodies())


@pytest.mark.parametrize(("rule", "target"), [("num-cores", FOUR_CORES), ("mcpu-family", HASWELL)])
def test_a_named_rule_gives_a_near_hit_that_says_so(
    farm: FakeService, caplog: pytest.LogCaptureFixture, rule: str, target: dict[str, Any]
) -> None:
    farm.near = {SHASH: near(rule, target)}  # type: ignore[attr-defined]
    db = database(farm, near=[rule])
    with caplog.at_level(logging.WARNING, logger="tilefarm"):
        for _ in range(2):
            found = compiled(db)
            assert is_tuned(found.mod)
    assert farm.bodies()[-1]["near"] == [rule]
    assert (db.stats().hits, db.stats().near, db.stats().misses) == (0, 2, 0)
    (told,) = caplog.messages
    assert "no exact record" in told
    assert f"near by {rule}" in told
    assert len(farm.requests) == 2


HOSTILE = {
    "another rule than asked": near("mcpu-family", HASWELL),
    "differs by more": near("num-cores", {**FOUR_CORES, "mcpu": "haswell"}),
    "its key is another": near("num-cores", FOUR_CORES) | {"target_key": "0" * 64},
    "another workload": near("num-cores", FOUR_CORES, module="{}"),
    "a hostile trace": near("num-cores", FOUR_CORES, trace=[[["UnsafeSetDType", [], [], []]], []]),
}


@pytest.mark.parametrize("found", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_near_record_on_any_doubt_is_none(farm: FakeService, found: dict[str, Any]) -> None:
    farm.near = {SHASH: found}  # type: ignore[attr-defined]
    db = database(farm, near=["num-cores"], on_miss="silent")
    assert compiled(db) is None
    assert db.stats().near == 0


def test_a_record_of_another_cpu_with_tensor_intrinsics_is_not_near(farm: FakeService) -> None:
    trace = record()["trace"]
    trace[0].append(["Tensorize", ["b0", "avx512_16x4"], [], []])
    farm.near = {SHASH: near("mcpu-family", HASWELL, trace=trace)}  # type: ignore[attr-defined]
    assert compiled(database(farm, near=["mcpu-family"], on_miss="silent")) is None


def test_a_near_record_is_verified_for_its_own_target(farm: FakeService) -> None:
    good = signed(target=FOUR_CORES)["signature"]
    for signature, tuned in ((good, True), (signed()["signature"], False)):
        farm.near = {SHASH: near("num-cores", FOUR_CORES, signature=signature)}  # type: ignore[attr-defined]
        db = database(farm, near=["num-cores"], public_key=SIGNER.public_key, on_miss="silent")
        assert (compiled(db) is not None) == tuned


def test_an_unknown_rule_is_refused(farm: FakeService) -> None:
    with pytest.raises(tilefarm.NotConfiguredError, match="num-cores, mcpu-family"):
        database(farm, near=["colour"])
