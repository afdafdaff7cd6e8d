"""Bodies of who has shown no token yet: bounded together and in time, and one gzip stream each."""

import asyncio
import gzip
from collections.abc import AsyncIterator

import httpx
import pytest
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from services.api.body import BodyLimit, BodyLimits

JSON = {"Content-Type": "application/json"}


async def answer(scope: Scope, receive: Receive, send: Send) -> None:
    await PlainTextResponse("read")(scope, receive, send)


def wall(*, together_bytes: int = 1000, secs: float = 60.0) -> httpx.AsyncClient:
    limits = BodyLimits(body_bytes=100, binary_bytes=100, together_bytes=together_bytes, secs=secs)
    transport = httpx.ASGITransport(app=BodyLimit(answer, limits=limits))
    return httpx.AsyncClient(transport=transport, base_url="http://api", headers=JSON)


async def pieces(go: asyncio.Event) -> AsyncIterator[bytes]:
    yield b"[" + b" " * 59
    await go.wait()
    yield b"]"


def test_bodies_that_come_slowly_are_bounded_together_and_give_their_room_back() -> None:
    async def story() -> None:
        go = asyncio.Event()
        async with wall(together_bytes=100) as client:
            slow = asyncio.create_task(client.post("/v1/jobs", content=pieces(go)))
            for _ in range(20):
                await asyncio.sleep(0)
            refused = await client.post("/v1/jobs", content=b" " * 60)
            assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
            assert (await client.post("/v1/jobs", content=b"[]")).status_code == 200
            go.set()
            assert (await slow).status_code == 200
            assert (await client.post("/v1/jobs", content=b" " * 60)).status_code == 200

    asyncio.run(story())


def test_a_body_that_does_not_come_in_time_is_told() -> None:
    async def story() -> None:
        async with wall(secs=0.02) as client:
            late = await client.post("/v1/jobs", content=pieces(asyncio.Event()))
            assert late.status_code == 408
            assert late.json()["type"].endswith("/body_too_slow")
            assert "0.02 s" in late.json()["detail"]

    asyncio.run(story())


@pytest.mark.parametrize("behind", [gzip.compress(b"[]"), b"x"])
def test_what_stands_behind_a_gzip_stream_is_not_dropped_silently(behind: bytes) -> None:
    async def story() -> None:
        async with wall() as client:
            headers = {"Content-Encoding": "gzip"}
            sent = await client.post("/v1/jobs", content=gzip.compress(b"[]") + behind, headers=headers)
            assert sent.status_code == 400
            assert sent.json()["type"].endswith("/malformed_gzip")

    asyncio.run(story())
