"""Runs several processes under one: starts them by stages, restarts what dies, ends them in reverse order.

A process that dies is started again after a short, growing pause; what it knew is in rows. All of them carry
PDEATHSIG, so that not even SIGKILL of the supervisor leaves an orphan. It knows nothing of what they do.
"""

import asyncio
import contextlib
import os
import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import structlog

from services.server.deathsig import DIE_WITH_PARENT
from services.server.rotating import RotatingLog

_log = structlog.get_logger()

_GRACE_SECS = 10.0
_FIRST_PAUSE_SECS = 0.2
_LONGEST_PAUSE_SECS = 10.0
#: A process that lived so long starts again with the first pause.
_HEALTHY_SECS = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One process of the house."""

    name: str
    command: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)
    #: The process is started when this is done; None: at once.
    after: "asyncio.Future[Any] | None" = None
    #: Returns when the process is ready to be used by the next one; None: at once.
    ready: Callable[[], Awaitable[None]] | None = None
    #: What takes the lines of its output; None: the supervisor's own.
    log: RotatingLog | None = None


class PartFailedError(RuntimeError):
    """A part ended before it was ready: its name, its exit code and the end of its log."""


class Supervisor:
    """`async with Supervisor(stages) as house: await house.wait()`; `wait` returns when `stop` was called.

    The parts of a stage start side by side; the next stage begins when all of them are ready.
    """

    def __init__(self, stages: Sequence[Sequence[Part]], *, ready_timeout_secs: float = 60.0) -> None:
        self._stages = stages
        self._ready_timeout_secs = ready_timeout_secs
        self._processes: dict[str, asyncio.subprocess.Process] = {}
        self._watchers: list[asyncio.Task[None]] = []
        self._stopping = asyncio.Event()

    async def __aenter__(self) -> Self:
        try:
            for stage in self._stages:
                async with asyncio.TaskGroup() as group:
                    for part in stage:
                        group.create_task(self._bring_up(part))
        except BaseExceptionGroup as several:
            await self._end_all()
            raise several.exceptions[0] from several
        except BaseException:
            await self._end_all()
            raise
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self._end_all()

    def stop(self) -> None:
        self._stopping.set()

    async def wait(self) -> None:
        await self._stopping.wait()

    async def _bring_up(self, part: Part) -> None:
        if part.after is not None:
            await asyncio.shield(part.after)
        process = await self._start(part)
        if part.ready is not None:
            await self._until_ready(part, process)
        self._watchers.append(asyncio.create_task(self._keep_alive(part), name=part.name))

    async def _until_ready(self, part: Part, process: asyncio.subprocess.Process) -> None:
        assert part.ready is not None
        ready = asyncio.ensure_future(part.ready())
        ended = asyncio.ensure_future(process.wait())
        stopping = asyncio.ensure_future(self._stopping.wait())
        waits = {ready, ended, stopping}
        try:
            await asyncio.wait(waits, timeout=self._ready_timeout_secs, return_when=asyncio.FIRST_COMPLETED)
            if stopping.done():
                raise asyncio.CancelledError
            if ready.done():
                ready.result()
                return
            why = f"ended with code {process.returncode}" if ended.done() else "was not ready in time"
            raise PartFailedError(f"{part.name} {why}; {_last_lines(part)}")
        finally:
            for wait in waits:
                wait.cancel()

    async def _start(self, part: Part) -> asyncio.subprocess.Process:
        with contextlib.ExitStack() as stack:
            output = None
            if part.log is not None:
                output = part.log.pipe()
                stack.callback(os.close, output)
            process = await asyncio.create_subprocess_exec(
                *DIE_WITH_PARENT,
                *part.command,
                env={**os.environ, **part.env},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self._processes[part.name] = process
        _log.info("part_started", part=part.name, pid=process.pid)
        return process

    async def _keep_alive(self, part: Part) -> None:
        pause_secs = _FIRST_PAUSE_SECS
        loop = asyncio.get_running_loop()
        while True:
            born = loop.time()
            code = await self._processes[part.name].wait()
            if self._stopping.is_set():
                return
            if loop.time() - born > _HEALTHY_SECS:
                pause_secs = _FIRST_PAUSE_SECS
            _log.warning("part_died", part=part.name, code=code, restart_in_secs=pause_secs)
            await asyncio.sleep(pause_secs)
            pause_secs = min(2 * pause_secs, _LONGEST_PAUSE_SECS)
            try:
                await self._start(part)
            except OSError as error:
                # No memory, no process, no room for its log: it may be there again soon.
                _log.error("part_not_started", part=part.name, reason=str(error))

    async def _end_all(self) -> None:
        self._stopping.set()
        for watcher in self._watchers:
            watcher.cancel()
        await asyncio.gather(*self._watchers, return_exceptions=True)
        for part in reversed([part for stage in self._stages for part in stage]):
            process = self._processes.get(part.name)
            if process is not None:
                await _end(process)
                if part.log is not None:
                    await asyncio.to_thread(part.log.drain)
                _log.info("part_ended", part=part.name, code=process.returncode)


async def _end(process: asyncio.subprocess.Process) -> None:
    """SIGTERM, grace, then SIGKILL of the whole process group."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), _GRACE_SECS)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()


def _last_lines(part: Part, *, count: int = 15) -> str:
    return "it has no log" if part.log is None else part.log.last_lines(count)
