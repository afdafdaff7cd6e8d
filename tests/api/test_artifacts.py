"""Artifacts: stored and given back by content, bounded, checked, and only for workers."""

import hashlib
import zlib

import pytest
from sqlalchemy import update

from db.artifacts import drop_artifacts
from db.clock import utc_now
from db.farm_tables import ArtifactRow
from db.session import transaction
from tests.api.conftest import problem

KERNEL = b"\x7fELF" + b"code" * 4000
NAME = hashlib.sha256(KERNEL).hexdigest()
BINARY = {"Content-Type": "application/octet-stream"}


def put(api, data_z: bytes, *, name: str = NAME, as_: str = "worker", headers=BINARY):
    return api("PUT", f"/v1/artifacts/{name}", as_=as_, content=data_z, headers=headers)


def get(api, name: str = NAME, *, as_: str = "worker"):
    return api("GET", f"/v1/artifacts/{name}", as_=as_)


def test_what_one_worker_stored_another_gets_as_it_was(api):
    assert problem(get(api), 404)["code"] == "artifact_not_found"
    assert problem(api("POST", f"/v1/artifacts/{NAME}:touch", as_="worker"), 404)
    for _ in range(2):
        assert put(api, zlib.compress(KERNEL)).status_code == 204
    answer = get(api)
    assert (answer.status_code, answer.headers["content-type"]) == (200, BINARY["Content-Type"])
    assert zlib.decompress(answer.content) == KERNEL
    assert len(answer.content) < 200
    assert api("POST", f"/v1/artifacts/{NAME}:touch", as_="worker").status_code == 204


@pytest.mark.parametrize(
    ("data_z", "code"),
    [
        (b"no zlib", "bad_artifact"),
        (zlib.compress(KERNEL)[:-4], "bad_artifact"),
        (zlib.compress(KERNEL) + b"more", "bad_artifact"),
        (b"", "bad_artifact"),
        (zlib.compress(KERNEL + b"!"), "artifact_hash_differs"),
    ],
)
def test_bytes_that_are_not_what_their_name_says_are_refused(api, data_z, code):
    assert problem(put(api, data_z), 422)["code"] == code
    assert get(api).status_code == 404


def test_an_artifact_is_bounded_before_and_after_it_is_inflated(api, app):
    app.state.settings = app.state.settings.model_copy(update={"max_artifact_bytes": 1 << 20})
    bomb = bytes(64 << 20)
    answer = put(api, zlib.compress(bomb), name=hashlib.sha256(bomb).hexdigest())
    assert problem(answer, 413)["code"] == "artifact_too_large"
    answer = put(api, bytes((64 << 20) + 1))
    assert problem(answer, 413)["code"] == "body_too_large"


def test_only_workers_have_to_do_with_artifacts(api):
    data_z = zlib.compress(KERNEL)
    assert problem(put(api, data_z, as_="alice"), 403)["code"] == "missing_scope"
    assert problem(get(api, as_="consumer"), 403)["code"] == "missing_scope"
    assert problem(put(api, data_z, headers={"Content-Type": "application/json"}), 415)
    assert problem(put(api, data_z, name="A" * 64), 422)


def test_what_nobody_asked_for_goes_after_a_while(api, engine):
    put(api, zlib.compress(KERNEL))
    with transaction(engine) as session:
        assert drop_artifacts(session, unused_secs=10) == 0
        session.execute(update(ArtifactRow).values(used_at=utc_now(offset_secs=-11)))
    api("POST", f"/v1/artifacts/{NAME}:touch", as_="worker")
    with transaction(engine) as session:
        assert drop_artifacts(session, unused_secs=10) == 0
        session.execute(update(ArtifactRow).values(used_at=utc_now(offset_secs=-11)))
        assert drop_artifacts(session, unused_secs=10) == 1
    assert get(api).status_code == 404
