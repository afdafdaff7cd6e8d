"""The client's side of the fork server: starts it, asks it for children, starts it again when it died.

It hands out Child handles and keeps none of them: whoever spawns a child closes it. Directories of children
whose parent was killed go when a server starts. A server that is old, or has grown, is followed by a fresh
one; the children that it has live on, and it ends with the last of them.
"""

import contextlib
import json
import os
import queue
import select
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sandbox.child import Child
from sandbox.directory import remove
from sandbox.errors import ForkServerDied, SpawnRefused
from sandbox.limits import Limits

_START_TIMEOUT_SECS = 180.0
_SPAWN_TIMEOUT_SECS = 30.0
_STOP_TIMEOUT_SECS = 5.0
_MAX_REPLY_BYTES = 1 << 14
#: A server older than this, or larger by this than when it was ready, is followed by another.
MOST_AGE_SECS = 24 * 3600.0
MOST_GROWTH_BYTES = 128 << 20
#: Of a child's directory; the number of its parent follows.
_PREFIX = "tilefarm-child-"
_BEGAN_AT = time.time()
#: All that a server and its children see of the environment, unless the caller adds to it. One thread for
#: numpy's OpenBLAS: the server may have no second one when it forks.
_BASE_ENV = {
    "PATH": os.defpath,
    "LANG": "C.UTF-8",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
}


class ForkServer:
    """One server process; safe to use from several threads."""

    def __init__(
        self,
        preload: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        work_dir: Path | None = None,
    ) -> None:
        self._preload = tuple(preload)
        self._env = {**_BASE_ENV, **(env or {})}
        #: Where the children's private directories are made; the system's temp directory if None.
        self._work_dir = work_dir
        self._lock = threading.Lock()
        self._process: _ServerProcess | None = None
        #: The one before, while it has children.
        self._retired: _ServerProcess | None = None
        self._closed = False

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def pid(self) -> int | None:
        """Of the server process; None while there is none."""
        process = self._process
        return process.pid if process is not None and process.alive else None

    def start(self) -> None:
        """Start the server unless it runs; raises ForkServerDied when it cannot."""
        self._running()

    def close(self) -> None:
        """End the server and with it all its children; who still waits to spawn one gets ForkServerDied."""
        with self._lock:
            self._closed = True
            for process in (self._process, self._retired):
                if process is not None:
                    process.stop()
            self._process = self._retired = None

    def spawn(self, entry: str, *, limits: Limits) -> Child:
        """A child that runs `entry`, a name as `tuner.intake:run`, with its Channel as only argument.

        Raises SpawnRefused where none can be made, ForkServerDied where the server is gone.
        """
        server = self._running()
        try:
            directory = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=self._work_dir))
        except OSError as error:
            raise SpawnRefused(f"no directory for a child: {error}") from error
        try:
            try:
                return server.spawn(entry, limits=limits, directory=directory)
            except ForkServerDied:
                if not server.retired:
                    raise
                # It ended, as it should, between the two lines.
                return self._running().spawn(entry, limits=limits, directory=directory)
        except OSError as error:
            remove(directory)
            raise SpawnRefused(f"no descriptors for a child: {error}") from error
        except BaseException:
            remove(directory)
            raise

    def _running(self) -> "_ServerProcess":
        with self._lock:
            if self._process is not None and not self._process.alive:
                self._process.stop()
                self._process = None
            if self._closed:
                raise ForkServerDied("the fork server was closed")
            if self._process is None:
                _drop_left(self._work_dir or Path(tempfile.gettempdir()))
                self._process = _ServerProcess(preload=self._preload, env=self._env)
            self._recycle(self._process)
            return self._process

    def _recycle(self, process: "_ServerProcess") -> None:
        """Have a fresh server where this one is overdue; no more than one with children is left behind."""
        if self._retired is not None and not self._retired.alive:
            self._retired.stop()
            self._retired = None
        if self._retired is None and process.overdue:
            try:
                self._process = _ServerProcess(preload=self._preload, env=self._env)
            except ForkServerDied:
                # An old server is better than none.
                process.count_anew()
                return
            process.retire()
            self._retired = process


class _ServerProcess:
    """One life of the server.

    A thread of its own starts the process and waits for its end: the kernel ties the death signal to the
    thread that forked, and that has to live as long as this process.
    """

    def __init__(self, *, preload: Sequence[str], env: Mapping[str, str]) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control = ours
        self._env = dict(env)
        self._ended = threading.Event()
        self._started: queue.SimpleQueue[subprocess.Popen[bytes] | OSError] = queue.SimpleQueue()
        self._keeper = threading.Thread(
            target=self._keep, args=(theirs,), name="fork-server-keeper", daemon=True
        )
        self._keeper.start()
        started = self._started.get()
        theirs.close()
        if isinstance(started, OSError):
            ours.close()
            raise ForkServerDied(f"the fork server did not start: {started}") from started
        self._process = started
        self.pid: int = started.pid
        self.retired = False
        try:
            self._await_ready(preload)
        except BaseException:
            self.stop()
            raise
        self.count_anew()

    @property
    def alive(self) -> bool:
        return not self._ended.is_set()

    @property
    def overdue(self) -> bool:
        """Whether another one should take its place."""
        age_secs = time.monotonic() - self._counted_at
        return age_secs > MOST_AGE_SECS or _resident_bytes(self.pid) - self._counted_bytes > MOST_GROWTH_BYTES

    def count_anew(self) -> None:
        """Age and growth count from here on."""
        self._counted_at = time.monotonic()
        self._counted_bytes = _resident_bytes(self.pid)

    def retire(self) -> None:
        """Let it end with the last of its children."""
        self.retired = True
        with contextlib.suppress(ForkServerDied):
            self._send({"retire": True}, [])

    def spawn(self, entry: str, *, limits: Limits, directory: Path) -> Child:
        ours, theirs = socket.socketpair()
        try:
            status_fd, status_out = os.pipe2(os.O_CLOEXEC)
        except OSError:
            ours.close()
            theirs.close()
            raise
        try:
            request = {"entry": entry, "limits": limits.as_json(), "directory": str(directory)}
            self._send({"spawn": request}, [theirs.fileno(), status_out])
            theirs.close()
            os.close(status_out)
            status_out = -1
            pid = self._await_pid(status_fd)
        except BaseException:
            ours.close()
            theirs.close()
            os.close(status_fd)
            if status_out >= 0:
                os.close(status_out)
            raise
        return Child(
            pid=pid,
            sock=ours,
            status_fd=status_fd,
            directory=directory,
            kill=self.kill,
            answer_bytes=limits.answer_bytes,
        )

    def kill(self, pid: int) -> None:
        """Ask the server to kill a child's group. A dead server's children are dead already."""
        with contextlib.suppress(ForkServerDied):
            self._send({"kill": pid}, [])

    def stop(self) -> None:
        self._control.close()
        if not self._ended.wait(_STOP_TIMEOUT_SECS):
            self._process.kill()
        self._keeper.join()

    def _keep(self, theirs: socket.socket) -> None:
        # -P: nothing is imported from the current directory; the module path follows in the first message.
        command = [sys.executable, "-P", "-m", "sandbox.server", str(theirs.fileno()), str(os.getpid())]
        root = str(Path(__file__).resolve().parent.parent)
        try:
            process = subprocess.Popen(
                command,
                env={**self._env, "PYTHONPATH": root},
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as error:
            self._ended.set()
            self._started.put(error)
            return
        self._started.put(process)
        process.wait()
        self._ended.set()

    def _await_ready(self, preload: Sequence[str]) -> None:
        paths = [str(Path(path).resolve()) for path in sys.path]
        self._send({"sys_path": paths, "preload": list(preload)}, [])
        self._control.settimeout(_START_TIMEOUT_SECS)
        try:
            data = self._control.recv(_MAX_REPLY_BYTES)
        except (TimeoutError, ConnectionError) as error:
            raise ForkServerDied(f"the fork server did not become ready: {error}") from error
        if not data:
            raise ForkServerDied("the fork server died while it started")
        reply = json.loads(data)
        if "failed" in reply:
            raise ForkServerDied(f"the fork server could not start: {reply['failed']}")

    def _await_pid(self, status_fd: int) -> int:
        poller = select.poll()
        poller.register(status_fd, select.POLLIN)
        if not poller.poll(_SPAWN_TIMEOUT_SECS * 1e3):
            raise ForkServerDied(f"the fork server {self.pid} made no child in {_SPAWN_TIMEOUT_SECS} s")
        line = _read_line(status_fd)
        if not line:
            self._ended.wait(_STOP_TIMEOUT_SECS)
            raise ForkServerDied(f"the fork server {self.pid} died while it made a child")
        reply = json.loads(line)
        if "refused" in reply:
            raise SpawnRefused(reply["refused"])
        return int(reply["pid"])

    def _send(self, message: Mapping[str, Any], descriptors: list[int]) -> None:
        # One packet each: threads need no lock.
        try:
            socket.send_fds(self._control, [json.dumps(message).encode()], descriptors)
        except OSError as error:
            self._ended.wait(_STOP_TIMEOUT_SECS)
            raise ForkServerDied(f"the fork server {self.pid} is gone: {error}") from error


def _drop_left(work_dir: Path) -> None:
    """Directories of children whose parent, of the same user, was killed."""
    with contextlib.suppress(OSError):
        for path in work_dir.glob(f"{_PREFIX}*-*"):
            if path.lstat().st_uid == os.getuid() and _is_left(path):
                remove(path)


def _is_left(directory: Path) -> bool:
    pid = directory.name.removeprefix(_PREFIX).partition("-")[0]
    if pid == str(os.getpid()):
        # A predecessor's of the same number: in a container every one of them is process 1.
        return directory.lstat().st_mtime < _BEGAN_AT
    return not Path("/proc", pid).exists()


def _resident_bytes(pid: int) -> int:
    """0 of a process that is gone."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0


def _read_line(fd: int) -> bytes:
    """Up to the first newline, and no byte further: the exit status may follow at once."""
    line = bytearray()
    while not line.endswith(b"\n"):
        byte = os.read(fd, 1)
        if not byte:
            return b""
        line += byte
    return bytes(line)
