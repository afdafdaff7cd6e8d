"""The parent's handle of one disposable child.

It waits on the child's status pipe, which only the fork server can write and close, and never on the end of
the channel: a grandchild may hold that. A child is used by one thread; `kill` may be called from any.
"""

import contextlib
import json
import os
import select
import signal
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sandbox.channel import MAX_FRAME_BYTES, Frame, FrameReader, encode
from sandbox.directory import read_file, remove
from sandbox.errors import ChannelError, ChildDied, ChildTimeout, ForkServerDied, SpawnRefused

_READ_BYTES = 1 << 18
_SEND_TIMEOUT_SECS = 30.0
_STDERR_BYTES = 2000
#: How long the exit status may lag behind a killed or finished child.
_REAP_SECS = 10.0
_MOST_REASON_CHARS = 4000


@dataclass(frozen=True, slots=True, kw_only=True)
class ExitStatus:
    """Exactly one of the two is set."""

    exit_code: int | None = None
    signal: int | None = None

    def __str__(self) -> str:
        if self.signal is None:
            return f"exit code {self.exit_code}"
        try:
            return signal.Signals(self.signal).name
        except ValueError:
            return f"signal {self.signal}"


class Child:
    """A running child; leaving its context kills it and removes its directory."""

    def __init__(
        self,
        *,
        pid: int,
        sock: socket.socket,
        status_fd: int,
        directory: Path,
        kill: Callable[[int], None],
        answer_bytes: int = MAX_FRAME_BYTES,
    ) -> None:
        self.pid = pid
        #: The child's private working directory; it lives until `close`.
        self.directory = directory
        self._sock = sock
        self._status_fd: int | None = status_fd
        self._kill = kill
        self._status: ExitStatus | None = None
        self._status_text = b""
        #: Why it could not be confined.
        self._refused: str | None = None
        self._channel_ended = False
        self._reader = FrameReader(max_bytes=answer_bytes)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def send(self, obj: Mapping[str, Any], *blobs: bytes) -> None:
        """Raises as `recv` does when the child is gone, ChildTimeout when it does not take the frame."""
        self._sock.settimeout(_SEND_TIMEOUT_SECS)
        try:
            self._sock.sendall(encode(obj, blobs))
        except TimeoutError as error:
            raise ChildTimeout(f"child {self.pid} took no message for {_SEND_TIMEOUT_SECS} s") from error
        except OSError:
            self._drain()
            self._raise_death(self._final_error(), deadline=_deadline(_REAP_SECS))

    def recv(self, timeout_secs: float | None) -> Frame:
        """The next answer; raises ChildDied, ChildTimeout, ForkServerDied or ChannelError.

        SpawnRefused where the walls around the child could not be raised: no foreign code has run in it.
        """
        deadline = _deadline(timeout_secs)
        while True:
            frame = self._reader.pop()
            if frame is not None:
                if _is_final(frame):
                    self._raise_death(frame, deadline=_deadline(_REAP_SECS))
                return frame
            if self._status is not None:
                raise self._death(None)
            self._poll(deadline)

    def wait(self, timeout_secs: float | None) -> ExitStatus:
        """The exit status; raises ChildTimeout or ForkServerDied. Answers not yet received stay readable."""
        deadline = _deadline(timeout_secs)
        while self._status is None:
            self._poll(deadline)
        return self._status

    def kill(self) -> None:
        """SIGKILL to the child's whole group, if it still lives; returns at once."""
        if self._status is None:
            self._kill(self.pid)

    def close(self) -> None:
        """Kill, wait until it is gone, free everything."""
        if self._status_fd is not None and self._status is None:
            self._sock.close()
            self._channel_ended = True
            self.kill()
            with contextlib.suppress(ForkServerDied, ChildTimeout):
                self.wait(_REAP_SECS)
        self._sock.close()
        self._close_status()
        remove(self.directory)

    def stderr_tail(self) -> str:
        """The end of what the child wrote to its standard error."""
        try:
            tail = read_file(self.directory / "stderr", tail_bytes=_STDERR_BYTES)
        except OSError:
            return ""
        return tail.decode(errors="replace").strip()

    def _poll(self, deadline: float | None) -> None:
        """Take what has arrived on either descriptor, waiting for the first."""
        if self._status_fd is None:
            raise ForkServerDied(f"the fork server died before child {self.pid} was reaped")
        poller = select.poll()
        poller.register(self._status_fd, select.POLLIN)
        if not self._channel_ended:
            poller.register(self._sock, select.POLLIN)
        left_ms = None if deadline is None else max(0.0, deadline - time.monotonic()) * 1e3
        ready = {fd for fd, _ in poller.poll(left_ms)}
        if not ready:
            raise ChildTimeout(f"child {self.pid} did not answer in time")
        if self._status_fd in ready:
            self._read_status()
            self._drain()
        else:
            self._read_channel()

    def _read_channel(self) -> bool:
        """True while there was something to read."""
        try:
            data = self._sock.recv(_READ_BYTES, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except ConnectionError:
            data = b""
        if not data:
            self._channel_ended = True
            return False
        try:
            self._reader.feed(data)
        except ChannelError:
            self.kill()
            raise
        return True

    def _drain(self) -> None:
        while not self._channel_ended and self._read_channel():
            pass

    def _read_status(self) -> None:
        assert self._status_fd is not None
        data = os.read(self._status_fd, 4096)
        if not data:
            self._close_status()
            if self._status is None:
                raise ForkServerDied(f"the fork server died before child {self.pid} was reaped")
            return
        *lines, self._status_text = (self._status_text + data).split(b"\n")
        for line in lines:
            said = json.loads(line)
            if "refused" in said:
                self._refused = said["refused"]
            else:
                self._status = ExitStatus(**said)

    def _final_error(self) -> Frame | None:
        while (frame := self._reader.pop()) is not None:
            if _is_final(frame):
                return frame
        return None

    def _raise_death(self, frame: Frame | None, *, deadline: float | None) -> None:
        while self._status is None:
            self._poll(deadline)
        raise self._death(frame)

    def _death(self, frame: Frame | None) -> ChildDied | SpawnRefused:
        assert self._status is not None
        if self._refused is not None:
            return SpawnRefused(self._refused)
        reason = str(self._status)
        if frame is not None:
            reason = _said(frame[0]["error"])
        elif self._status.exit_code == 0:
            reason = "it ended before it answered"
        return ChildDied(
            reason=reason,
            signal=self._status.signal,
            exit_code=self._status.exit_code,
            stderr=self.stderr_tail(),
        )

    def _close_status(self) -> None:
        if self._status_fd is not None:
            os.close(self._status_fd)
            self._status_fd = None


def _is_final(frame: Frame) -> bool:
    return frame[0].get("final") is True and "error" in frame[0]


def _said(error: object) -> str:
    """What a child says that it died of: anything that JSON can hold."""
    if isinstance(error, dict):
        error = f"{error.get('type')}: {error.get('message')}"
    return str(error)[:_MOST_REASON_CHARS]


def _deadline(timeout_secs: float | None) -> float | None:
    return None if timeout_secs is None else time.monotonic() + timeout_secs
