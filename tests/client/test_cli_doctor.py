"""`tilefarm doctor`: what it finds wrong on this side, on the way, and with the token."""

import json

import httpx
import pytest

from tests.client.conftest import FakeService, problem
from tests.client.test_cli import farm, run
from tests.client.test_jobs import answers

__all__ = ["farm"]


def test_doctor_finds_what_is_wrong(farm: FakeService, capsys: pytest.CaptureFixture[str]) -> None:
    farm.routes["GET /v1/version"] = answers(httpx.Response(200, json={"version": "1"}))
    farm.routes["GET /v1/workers"] = answers(
        httpx.Response(200, json={"workers": [{"health": "alive", "tvm_version": "0.1"}]})
    )
    farm.routes["GET /v1/targets"] = answers(httpx.Response(200, json={"targets": []}))
    farm.routes["GET /v1/records"] = answers(httpx.Response(200, json={"records": []}))
    assert run(farm, "doctor", "-o", "json") == 0
    results = {check["name"]: check["result"] for check in json.loads(capsys.readouterr().out)}
    # TVM takes half of the cores of a host that has more than one, unless it is told otherwise.
    assert results.pop("threads") in {"ok", "warning"}
    assert results == {
        "tvm": "ok",
        "host": "ok",
        "url": "ok",
        "versions": "ok",
        "token": "ok",
        "workers": "warning",
        "same tvm": "warning",
    }
    farm.routes["GET /v1/version"] = answers(httpx.ConnectError("refused"))
    assert run(farm, "doctor") == 1
    assert "cannot reach" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("refused", "result", "code"),
    [
        (["jobs"], "warning", 0),
        (["records"], "warning", 0),
        (["jobs", "records"], "failed", 1),
        (["targets"], "failed", 1),
    ],
    ids=["jobs", "records", "both", "targets"],
)
def test_doctor_says_what_the_token_may_not_do(
    farm: FakeService, refused: list[str], result: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    farm.routes["GET /v1/version"] = answers(httpx.Response(200, json={"version": "1"}))
    served = {"name": "local", "workers_alive": 1}
    for noun, answer in (("targets", [served]), ("records", []), ("jobs", []), ("workers", [])):
        farm.routes[f"GET /v1/{noun}"] = answers(httpx.Response(200, json={noun: answer}))
    for noun in refused:
        said = problem(403, "missing_scope", f"the token lacks the scope {noun}:read")
        farm.routes[f"GET /v1/{noun}"] = answers(said)
        if noun == "jobs":
            farm.routes["GET /v1/workers"] = answers(said)
    assert run(farm, "doctor", "-o", "json") == code
    checks = {check["name"]: check for check in json.loads(capsys.readouterr().out)}
    assert checks["token"]["result"] == result
    assert all(f"{noun}:read" in checks["token"]["detail"] for noun in refused)
    if refused == ["jobs"]:
        assert checks["workers"]["detail"] == "targets served: local"


def test_doctor_knows_the_pair_that_crashes_without_loading_it(
    farm: FakeService, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    versions = {"apache-tvm": "0.27.0.post1", "apache-tvm-ffi": "0.1.15"}
    monkeypatch.setattr("tilefarm.cli.doctor.version", lambda name: versions[name])
    assert run(farm, "doctor") == 1
    assert "install apache-tvm-ffi==0.1.14.post1" in capsys.readouterr().out
