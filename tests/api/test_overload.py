"""What is too much at once is refused at once, and told when to come again."""

import asyncio
from collections.abc import Awaitable, Callable

import httpx
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from services.api.overload import LimitRequests, Places, RefuseRequests


class Slow:
    """An app whose requests last until they are let go."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.entered = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.entered += 1
        await self.go.wait()
        await PlainTextResponse("done")(scope, receive, send)


def walls(app: ASGIApp, *, max_requests: int, max_submissions: int) -> ASGIApp:
    places = Places(max_requests=max_requests, max_submissions=max_submissions)
    return RefuseRequests(LimitRequests(app, places=places), places=places)


def run(story: Callable[[Slow, httpx.AsyncClient], Awaitable[None]]) -> None:
    async def told() -> None:
        slow = Slow()
        limited = walls(slow, max_requests=2, max_submissions=1)
        transport = httpx.ASGITransport(app=limited)
        async with httpx.AsyncClient(transport=transport, base_url="http://api") as client:
            await story(slow, client)

    asyncio.run(told())


async def until_entered(slow: Slow, count: int) -> None:
    while slow.entered < count:  # noqa: ASYNC110 - the app under test has no event of its own
        await asyncio.sleep(0)


def test_one_request_too_many_is_answered_503_with_retry_after_and_the_next_is_served():
    async def story(slow: Slow, client: httpx.AsyncClient) -> None:
        held = [asyncio.create_task(client.get("/v1/jobs")) for _ in range(2)]
        await until_entered(slow, 2)
        refused = await client.get("/v1/jobs")
        assert refused.status_code == 503
        assert int(refused.headers["Retry-After"]) >= 1
        assert refused.json()["type"].endswith("overloaded")
        slow.go.set()
        assert [answer.status_code for answer in await asyncio.gather(*held)] == [200, 200]
        assert (await client.get("/v1/jobs")).status_code == 200

    run(story)


def test_submissions_that_wait_take_no_lookups_place():
    async def story(slow: Slow, client: httpx.AsyncClient) -> None:
        held = [asyncio.create_task(client.post("/v1/jobs", json={}))]
        await until_entered(slow, 1)
        assert (await client.post("/v1/jobs", json={})).status_code == 503
        held.append(asyncio.create_task(client.post("/v1/lookup", json={})))
        await until_entered(slow, 2)
        slow.go.set()
        assert {answer.status_code for answer in await asyncio.gather(*held)} == {200}

    run(story)


def test_heartbeats_health_and_event_streams_always_pass():
    async def story(slow: Slow, client: httpx.AsyncClient) -> None:
        always = ["/healthz", "/v1/workers/w:heartbeat", "/v1/jobs/j/events", "/jobs/j/live"]
        paths = ["/v1/jobs", "/v1/jobs", *always]
        held = [asyncio.create_task(client.get(path)) for path in paths]
        await until_entered(slow, len(paths))
        slow.go.set()
        assert {answer.status_code for answer in await asyncio.gather(*held)} == {200}

    run(story)


def test_a_request_that_fails_gives_its_place_back():
    async def broken(_scope: Scope, _receive: Receive, _send: Send) -> None:
        raise RuntimeError

    async def story() -> None:
        limited = walls(broken, max_requests=1, max_submissions=1)
        transport = httpx.ASGITransport(app=limited, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://api") as client:
            assert [(await client.get("/v1/jobs")).status_code for _ in range(3)] == [500] * 3

    asyncio.run(story())


def test_whatever_waits_for_a_child_waits_with_the_submissions():
    waiting = [
        *(("POST", path) for path in ("/v1/records:import", "/v1/records:import-many", "/records/tune")),
        *(("GET", path) for path in ("/v1/tasks/7/record", "/tasks/7/scripts", "/trials/7/script")),
    ]

    async def story(slow: Slow, client: httpx.AsyncClient) -> None:
        held = [asyncio.create_task(client.post("/v1/jobs", json={}))]
        await until_entered(slow, 1)
        refused = [await client.request(method, path) for method, path in waiting]
        assert {answer.status_code for answer in refused} == {503}
        held += [asyncio.create_task(client.get(path)) for path in ("/v1/tasks/7", "/tasks/7")]
        await until_entered(slow, 3)
        slow.go.set()
        assert {answer.status_code for answer in await asyncio.gather(*held)} == {200}

    run(story)
