"""What dies is started again, also where a start fails: the machine may be out of memory for a while."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from services.server.rotating import RotatingLog
from services.server.supervisor import Part, Supervisor


async def _until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not true():  # noqa: ASYNC110 - a file has no event
            await asyncio.sleep(0.02)


def test_a_part_that_could_not_be_started_is_tried_again(tmp_path: Path) -> None:
    logs, lives = tmp_path / "logs", tmp_path / "lives"
    logs.mkdir()
    part = Part(
        name="part",
        command=["sh", "-c", f"echo life >> {lives}; exec sleep 60"],
        log=RotatingLog(logs / "part.log", max_bytes=1 << 16, max_files=2),
    )

    def count() -> int:
        return len(lives.read_text().splitlines()) if lives.exists() else 0

    async def run() -> None:
        async with Supervisor([[part]]) as house:
            await _until(lambda: count() == 1)
            (logs / "part.log").unlink()
            logs.rmdir()
            house._processes["part"].kill()
            # Long enough for the first start, which fails: there is nowhere to write.
            await asyncio.sleep(0.5)
            assert count() == 1
            logs.mkdir()
            await _until(lambda: count() == 2)

    asyncio.run(run())
