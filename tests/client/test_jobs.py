"""Settings, HTTP errors, and following a job through broken connections."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

import tilefarm
from tests.client.conftest import URL, FakeService, problem
from tilefarm import events
from tilefarm.progress import describe, duration_text
from tilefarm.settings import Settings

JOB = "/v1/jobs/7"


def view(revision: int, state: str = "running", **fields: Any) -> dict[str, Any]:
    return {"id": "7", "name": "mm", "state": state, "revision": revision, "max_trials": 8, **fields}


def stream(*items: tuple[str, dict[str, Any]], end: str = "") -> httpx.Response:
    text = ": hello\n\n" + "".join(
        f"event: {name}\nid: {data['revision']}\ndata: {json.dumps(data)}\n\n" for name, data in items
    )
    return httpx.Response(200, text=text + end, headers={"content-type": "text/event-stream"})


def client_of(service: FakeService) -> tilefarm.Client:
    return tilefarm.Client(URL, "secret", transport=httpx.MockTransport(service))


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeService:
    monkeypatch.setattr("tilefarm.jobs._POLL_SECS", 0.0)
    return FakeService()


def answers(*responses: httpx.Response | Exception) -> Any:
    """One after the other; the last stays."""
    queue = list(responses)

    def answer(_: httpx.Request) -> httpx.Response:
        found = queue.pop(0) if len(queue) > 1 else queue[0]
        if isinstance(found, Exception):
            raise found
        return found

    return answer


def test_watch_yields_each_snapshot_until_the_end(fake: FakeService) -> None:
    fake.routes[f"GET {JOB}"] = answers(
        httpx.Response(200, json=view(1)), httpx.Response(200, json=view(4, "succeeded"))
    )
    fake.routes[f"GET {JOB}/events"] = answers(
        stream(("job", view(1)), ("job", view(2)), ("job", view(2)), ("end", view(4, "succeeded")))
    )
    job = client_of(fake).job("7")
    assert [found["revision"] for found in job.watch()] == [1, 2, 4]
    assert job.state == "succeeded"


def test_a_broken_stream_is_taken_up_where_it_broke(fake: FakeService) -> None:
    fake.routes[f"GET {JOB}"] = answers(
        httpx.Response(200, json=view(1)),
        httpx.Response(200, json=view(3)),
        httpx.Response(200, json=view(9, "succeeded")),
    )
    fake.routes[f"GET {JOB}/events"] = answers(
        stream(("job", view(2)), end="event: job\ndata: {"), stream(("end", view(9, "succeeded")))
    )
    job = client_of(fake).job("7").wait(timeout_secs=10)
    assert job.view["revision"] == 9
    resumed = [r for r in fake.requests if r.url.path.endswith("/events")][1]
    assert resumed.headers["Last-Event-ID"] == "3"


def test_without_events_the_job_is_polled(fake: FakeService) -> None:
    fake.routes[f"GET {JOB}"] = answers(
        httpx.Response(200, json=view(1)),
        httpx.ConnectError("refused"),
        httpx.ConnectError("refused"),
        httpx.Response(503, text="starting"),
        httpx.Response(200, json=view(2)),
        httpx.Response(200, json=view(3, "succeeded")),
    )
    fake.routes[f"GET {JOB}/events"] = answers(httpx.ConnectError("refused"))
    job = client_of(fake).job("7")
    assert [found["revision"] for found in job.watch()] == [2, 3]


def test_a_failed_job_raises_with_its_cause(fake: FakeService) -> None:
    fake.routes[f"GET {JOB}"] = answers(httpx.Response(200, json=view(2, "failed", error="no reference")))
    fake.routes[f"GET {JOB}/events"] = answers(stream(("end", view(2, "failed", error="no reference"))))
    with pytest.raises(tilefarm.JobFailedError, match="job 7 failed: no reference"):
        client_of(fake).job("7").wait()


def test_waiting_has_a_deadline(fake: FakeService) -> None:
    fake.routes[f"GET {JOB}"] = answers(httpx.Response(200, json=view(1)))
    fake.routes[f"GET {JOB}/events"] = answers(stream(("job", view(1))))
    with pytest.raises(tilefarm.DeadlineError, match="is running"):
        client_of(fake).job("7").wait(timeout_secs=0.05)


def test_a_token_that_is_refused_ends_watching_at_once(fake: FakeService) -> None:
    fake.routes[f"GET {JOB}"] = answers(httpx.Response(200, json=view(1)))
    fake.routes[f"GET {JOB}/events"] = answers(problem(401, "unauthorized", "the token expired"))
    with pytest.raises(tilefarm.AuthError, match="the token expired"):
        client_of(fake).job("7").wait()


@pytest.mark.parametrize("verb", ["cancel", "pause", "resume"])
def test_verbs_are_posted(fake: FakeService, verb: str) -> None:
    fake.routes[f"GET {JOB}"] = answers(httpx.Response(200, json=view(1)))
    fake.routes[f"POST {JOB}:{verb}"] = answers(httpx.Response(200, json=view(2, desired_state=verb)))
    job = getattr(client_of(fake).job("7"), verb)()
    assert job.view["desired_state"] == verb


def test_extend_patches_the_budget(fake: FakeService) -> None:
    fake.routes[f"GET {JOB}"] = answers(httpx.Response(200, json=view(1)))
    fake.routes[f"PATCH {JOB}"] = answers(httpx.Response(200, json=view(2)))
    client_of(fake).job("7").extend(max_trials=99)
    assert fake.bodies() == [{"max_trials": 99}]


def test_a_problem_keeps_code_and_causes(fake: FakeService) -> None:
    causes = [{"code": "symbolic_shape", "function": "f", "detail": "n is symbolic"}]
    fake.routes["POST /v1/jobs"] = answers(problem(422, "bad_module", "refused", errors=causes))
    with pytest.raises(tilefarm.ProblemError) as refusal:
        client_of(fake).submit_body({"module": {}})
    assert (refusal.value.code, refusal.value.status) == ("bad_module", 422)
    assert refusal.value.errors == tuple(causes)
    assert "f: n is symbolic (symbolic_shape)" in str(refusal.value)


def test_token_key_and_version_are_sent(fake: FakeService) -> None:
    fake.routes["POST /v1/jobs"] = answers(httpx.Response(201, json=view(1)))
    client_of(fake).submit_body({"module": {}, "name": None}, idempotency_key="k")
    headers = fake.requests[0].headers
    assert headers["Authorization"] == "Bearer secret"
    assert headers["Idempotency-Key"] == "k"
    assert headers["Tilefarm-Client-Version"] == tilefarm.__version__
    assert fake.bodies() == [{"module": {}}]


def test_a_list_is_read_page_by_page(fake: FakeService) -> None:
    fake.routes["GET /v1/jobs"] = answers(
        httpx.Response(200, json={"jobs": [{"id": "1"}], "next_page_token": "n"}),
        httpx.Response(200, json={"jobs": [{"id": "2"}], "next_page_token": None}),
    )
    assert [job["id"] for job in client_of(fake).jobs()] == ["1", "2"]
    assert fake.requests[1].url.params["page_token"] == "n"


def test_an_identifier_cannot_leave_its_path(fake: FakeService) -> None:
    with pytest.raises(tilefarm.ProblemError, match="no identifier"):
        client_of(fake).job("../records")
    assert fake.requests == []


def test_a_submission_whose_answer_was_lost_is_sent_again_under_its_key(fake: FakeService) -> None:
    fake.routes["POST /v1/jobs"] = answers(httpx.ReadError("gone"), httpx.Response(201, json=view(1)))
    assert client_of(fake).submit_body({"module": {}}).id == "7"
    first, second = (request.headers["Idempotency-Key"] for request in fake.requests)
    assert first == second


def test_a_submission_that_was_not_answered_in_time_names_the_key_for_the_next_try(fake: FakeService) -> None:
    fake.routes["POST /v1/jobs"] = answers(httpx.ReadTimeout("slow"))
    with pytest.raises(tilefarm.DeadlineError) as told:
        client_of(fake).submit_body({"module": {}})
    (request,) = fake.requests
    assert request.headers["Idempotency-Key"] in str(told.value)


def test_what_the_service_has_a_child_read_may_take_longer_than_a_lookup(fake: FakeService) -> None:
    fake.routes["POST /v1/jobs"] = answers(httpx.Response(201, json=view(1)))
    fake.routes["GET /v1/targets"] = answers(httpx.Response(200, json={"targets": []}))
    client = client_of(fake)
    client.submit_body({"module": {}})
    client.targets()
    submitted, asked = (request.extensions["timeout"] for request in fake.requests)
    assert submitted["read"] > 120
    assert (submitted["connect"], asked["read"]) == (10.0, 10.0)


def test_events_keep_their_id_and_drop_comments_and_torn_ends() -> None:
    lines = [": beat", "", "id: 4", "event: job", "data: a", "data: b", "", "data: torn"]
    (found,) = events.parse(lines)
    assert found == events.Event(name="job", data="a\nb", last_id="4")


def test_the_embedded_services_connection_is_found_and_its_token_goes_nowhere_else(tmp_path: Path) -> None:
    (tmp_path / "connection.json").write_text(json.dumps({"url": "http://127.0.0.1:1/", "token": "own"}))
    env = {"TILEFARM_DATA_DIR": str(tmp_path), "HOME": str(tmp_path)}
    found = Settings.load(environ=env)
    assert (found.url, found.token) == ("http://127.0.0.1:1", "own")
    other = Settings.load(environ={**env, "TILEFARM_URL": "https://elsewhere.test"})
    assert (other.url, other.token) == ("https://elsewhere.test", None)


def test_a_home_is_a_home_in_an_argument_too() -> None:
    assert Settings.load(cache_dir="~/kept", environ={}).cache_dir == Path.home() / "kept"


def test_a_token_loses_its_line_end_and_is_never_told(tmp_path: Path) -> None:
    assert Settings.load(token="tf_abc\n", environ={"HOME": str(tmp_path)}).token == "tf_abc"
    for token in ("tf_gehe\u00efm", "tf_se\ncret"):
        with pytest.raises(tilefarm.NotConfiguredError, match="TILEFARM_TOKEN") as told:
            Settings.load(environ={"TILEFARM_TOKEN": token, "HOME": str(tmp_path)})
        assert "tf_" not in str(told.value)


@pytest.mark.parametrize("url", ["http://", "https:///v1", "http://[::1"])
def test_a_url_without_a_host_is_told(url: str, tmp_path: Path) -> None:
    with pytest.raises(tilefarm.NotConfiguredError, match="names no host"):
        Settings.load(url=url, environ={"HOME": str(tmp_path)})


@pytest.mark.parametrize("value", ["soon", "-1", "nan", "inf"])
def test_a_timeout_is_a_positive_number(value: str, tmp_path: Path) -> None:
    with pytest.raises(tilefarm.NotConfiguredError):
        Settings.load(environ={"TILEFARM_TIMEOUT_SECS": value, "HOME": str(tmp_path)})


def test_speeds_and_spans_are_told_as_people_write_them() -> None:
    told = describe(view(1, weighted_latency_secs=1e-3, tasks=[{"flops": 2.345e9}]))
    assert "2345 GFLOP/s" in told
    assert [duration_text(secs) for secs in (59.4, 59.7, 3599.7)] == ["59 s", "1 min 0 s", "1 h 0 min"]
