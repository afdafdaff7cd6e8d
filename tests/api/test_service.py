"""Tokens and scopes, health, metrics, the OpenAPI document."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import text

from db.caller_tables import TokenRow
from db.migrate import head_revision
from db.session import transaction
from db.tables import Row
from db.tokens import create_token, list_tokens, revoke_token
from tests.api.conftest import problem


def test_no_token_and_a_wrong_one_are_not_authenticated(api):
    for headers in ({}, {"Authorization": "Bearer tf_wrong"}, {"Authorization": "Basic eDp5"}):
        response = api("GET", "/v1/jobs", as_=None, headers=headers)
        assert problem(response, 401)["code"] == "unauthenticated"
        assert response.headers["www-authenticate"] == "Bearer"


def test_an_expired_and_a_revoked_token_are_not_authenticated(api, engine):
    with transaction(engine) as session:
        api.tokens["late"] = create_token(session, "late", scopes=["jobs:read"], lifetime_secs=-1)
        api.tokens["timely"] = create_token(session, "timely", scopes=["jobs:read"], lifetime_secs=60)
    assert problem(api("GET", "/v1/jobs", as_="late"), 401)
    assert api("GET", "/v1/jobs", as_="timely").status_code == 200
    with transaction(engine) as session:
        assert revoke_token(session, "timely")
        assert not revoke_token(session, "timely")
    assert problem(api("GET", "/v1/jobs", as_="timely"), 401)


def test_a_token_is_stored_only_as_its_hash(engine, tokens):
    with transaction(engine) as session:
        rows = session.query(TokenRow).all()
        assert {row.name for row in rows} == set(tokens)
        assert not {row.token_sha256 for row in rows} & set(tokens.values())
        assert {token.name for token in list_tokens(session)} == set(tokens)
        with pytest.raises(ValueError, match="no:such"):
            create_token(session, "x", scopes=["no:such"])


@pytest.mark.parametrize(
    ("as_", "method", "path", "body"),
    [
        ("nobody", "GET", "/v1/jobs", None),
        ("consumer", "GET", "/v1/jobs", None),
        ("consumer", "POST", "/v1/jobs", {"module": {}, "target": "x"}),
        ("bob", "GET", "/v1/records", None),
        ("worker", "POST", "/v1/lookup", {"target": "x", "tvm_version": "1", "workloads": []}),
        ("alice", "POST", "/v1/workers/w:heartbeat", {}),
        ("worker", "POST", "/v1/workers/w:drain", None),
    ],
)
def test_each_route_takes_its_scope(api, as_, method, path, body):
    response = api(method, path, as_=as_, **({} if body is None else {"json": body}))
    assert problem(response, 403)["code"] == "missing_scope"


def test_health_readiness_and_version_ask_no_token(api):
    assert api("GET", "/healthz", as_=None).json() == {"status": "ok"}
    assert api("GET", "/readyz", as_=None).json() == {"status": "ready", "checks": {"database": "ok"}}
    assert api("GET", "/v1/version", as_=None).json()["schema_revision"] == head_revision()


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_health_is_answered_while_the_database_holds_every_thread(api, app, engine):
    with ThreadPoolExecutor(app.state.settings.threads) as pool:
        with engine.begin() as connection:
            connection.execute(text("LOCK TABLE tokens IN ACCESS EXCLUSIVE MODE"))
            held = [pool.submit(api, "GET", "/v1/jobs") for _ in range(app.state.settings.threads)]
            waiting = text(
                "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'tokens'::regclass"
            )
            deadline = time.monotonic() + 20
            while connection.execute(waiting).scalar_one() < app.state.settings.threads:
                assert time.monotonic() < deadline
                time.sleep(0.01)
            assert api.client.get("/healthz", timeout=2).is_success
            assert not any(answer.done() for answer in held)
        assert {answer.result().status_code for answer in held} == {200}


def test_a_database_without_tables_is_not_ready(api, engine):
    with engine.begin() as connection:
        for table in reversed(Row.metadata.sorted_tables):
            connection.execute(text(f"DROP TABLE {table.name}"))
    assert problem(api("GET", "/readyz", as_=None), 503)["code"] == "not_ready"


@pytest.mark.parametrize(("revision", "ready"), [("0008", False), (head_revision(), True), ("9999", True)])
def test_a_replica_is_ready_once_the_schema_has_what_its_version_needs(api, engine, revision, ready):
    """A newer release may have upgraded the database before this one ends."""
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)"))
        connection.execute(text("INSERT INTO alembic_version VALUES (:revision)"), {"revision": revision})
    answer = api("GET", "/readyz", as_=None)
    if ready:
        assert answer.json()["checks"] == {"database": "ok"}
    else:
        assert "tilefarm-server db upgrade" in problem(answer, 503)["detail"]


def test_metrics_count_rows_without_a_label_per_job(api):
    job = api.submit().json()
    api.join()
    lines = api("GET", "/metrics", as_=None).text.splitlines()
    assert 'tilefarm_jobs{state="queued"} 1.0' in lines
    assert 'tilefarm_workers{health="alive"} 1.0' in lines
    assert not [line for line in lines if job["id"] in line]


def test_the_api_reference_is_where_the_readme_says(api):
    page = api("GET", "/docs", as_=None)
    assert (page.status_code, page.headers["content-type"].partition(";")[0]) == (200, "text/html")
    assert "/v1/openapi.json" in page.text


def test_every_operation_declares_its_problems(api):
    document = api("GET", "/v1/openapi.json", as_=None).json()
    assert len(document["paths"]) >= 25
    for path, operations in document["paths"].items():
        for operation in operations.values():
            assert {"401", "403", "413", "415", "422", "500", "503"} <= set(operation["responses"]), path
            content = operation["responses"]["422"]["content"]
            assert content["application/problem+json"]["schema"]["$ref"].endswith("/Problem"), path
