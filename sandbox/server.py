"""The fork server's process: imports once, forks a child for each request, reaps and reports.

`python -m sandbox.server FD PARENT_PID` is started by sandbox/fork_server.py and by nobody else. It has
exactly one thread, runs no foreign code itself, and ends with its client.

Control messages (SOCK_SEQPACKET, JSON). In: {"sys_path", "preload"} once; then {"spawn": {"entry", "limits",
"directory"}} with two descriptors (the child's channel, the status pipe), {"kill": pid}, or {"retire": true},
after which it ends with the last of its children. Out:
{"ready": pid} or {"failed": reason}, once. On a status pipe, a line each: {"pid": n} or {"refused": reason};
{"refused": reason} by a child that cannot be confined; and at the end {"exit_code": n} or {"signal": n}.
"""

import contextlib
import importlib
import json
import os
import selectors
import signal
import socket
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sandbox.collector import resting_collector
from sandbox.confine import adopt_orphans, die_with_parent
from sandbox.entry import run_child
from sandbox.limits import Limits

MAX_REQUEST_BYTES = 1 << 16
#: In which threads that the imports started may end.
_GRACE_SECS = 1.0
_MAY_HANG = "other threads run ({}): a forked child could hang"


@dataclass(slots=True)
class _Running:
    pid: int
    pid_fd: int
    status_fd: int


class Server:
    """Owns the unreaped children; only it signals them, for only it knows that a pid is still theirs."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._selector = selectors.DefaultSelector()
        self._children: dict[int, _Running] = {}
        self._retired = False

    def run(self) -> None:
        """Serve until the client closes its end, or until a retired server has no child left."""
        self._selector.register(self._control, selectors.EVENT_READ)
        serving = True
        while serving and not (self._retired and not self._children):
            for key, _ in self._selector.select():
                if isinstance(key.data, _Running):
                    self._reap(key.data)
                elif not self._take_request():
                    serving = False
        for child in self._children.values():
            _kill_group(child.pid)
            os.waitpid(child.pid, 0)

    def _take_request(self) -> bool:
        data, descriptors, _, _ = socket.recv_fds(self._control, MAX_REQUEST_BYTES, 2)
        if not data:
            return False
        request = json.loads(data)
        if "retire" in request:
            self._retired = True
        elif "kill" in request:
            if request["kill"] in self._children:
                _kill_group(request["kill"])
        else:
            channel_fd, status_fd = descriptors
            try:
                self._spawn(request["spawn"], channel_fd, status_fd)
            finally:
                os.close(channel_fd)
        return True

    def _spawn(self, request: dict[str, Any], channel_fd: int, status_fd: int) -> None:
        if (threads := _other_threads()) is not None:
            self._refuse(status_fd, f"in the fork server {_MAY_HANG.format(threads)}")
            return
        parent_pid = os.getpid()
        try:
            pid = os.fork()
        except OSError as error:
            self._refuse(status_fd, f"fork: {error}")
            return
        if pid == 0:
            run_child(
                entry=request["entry"],
                limits=Limits.from_json(request["limits"]),
                channel_fd=channel_fd,
                status_fd=status_fd,
                directory=request["directory"],
                parent_pid=parent_pid,
            )
        child = _Running(pid=pid, pid_fd=os.pidfd_open(pid), status_fd=status_fd)
        self._children[pid] = child
        self._selector.register(child.pid_fd, selectors.EVENT_READ, child)
        _write_line(status_fd, {"pid": pid})

    def _refuse(self, status_fd: int, reason: str) -> None:
        _write_line(status_fd, {"refused": reason})
        os.close(status_fd)

    def _reap(self, child: _Running) -> None:
        """End what is left of its group while the pid is still its own, then reap and report."""
        _kill_group(child.pid)
        _, status = os.waitpid(child.pid, 0)
        self._selector.unregister(child.pid_fd)
        os.close(child.pid_fd)
        del self._children[child.pid]
        self._end_orphans()
        if os.WIFSIGNALED(status):
            _write_line(child.status_fd, {"signal": os.WTERMSIG(status)})
        else:
            _write_line(child.status_fd, {"exit_code": os.WEXITSTATUS(status)})
        os.close(child.status_fd)

    def _end_orphans(self) -> None:
        """Descendants that left their group were re-parented to us (adopt_orphans)."""
        for pid in _own_children():
            if pid not in self._children:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, 0)


def main(arguments: list[str]) -> int:
    control = socket.socket(fileno=int(arguments[0]))
    control.set_inheritable(False)
    die_with_parent(int(arguments[1]))
    adopt_orphans()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    boot = json.loads(control.recv(MAX_REQUEST_BYTES))
    sys.path[:] = boot["sys_path"]
    try:
        with resting_collector():
            for name in boot["preload"]:
                importlib.import_module(name)
    except Exception as error:  # noqa: BLE001 - the boundary: any failure of a preload is reported to the client
        control.send(
            json.dumps({"failed": f"import of {name}: {type(error).__name__}: {error}"[:4000]}).encode()
        )
        return 1
    if (threads := _other_threads(wait_secs=_GRACE_SECS)) is not None:
        control.send(json.dumps({"failed": f"after its imports {_MAY_HANG.format(threads)}"}).encode())
        return 1
    control.send(json.dumps({"ready": os.getpid()}).encode())
    Server(control).run()
    return 0


def _other_threads(*, wait_secs: float = 0.0) -> str | None:
    """Names of the threads beside this one, once they had so long to end; None where there is none."""
    deadline = time.monotonic() + wait_secs
    while len(found := os.listdir("/proc/self/task")) > 1:  # noqa: PTH208 - counted before each fork
        if time.monotonic() >= deadline:
            return ", ".join(_thread_name(each) for each in found if int(each) != os.getpid())
        time.sleep(0.01)
    return None


def _thread_name(thread: str) -> str:
    try:
        return Path("/proc/self/task", thread, "comm").read_text(errors="replace").strip() or "unnamed"
    except OSError:
        return "ended meanwhile"


def _own_children() -> list[int]:
    path = Path(f"/proc/self/task/{os.getpid()}/children")
    return [int(pid) for pid in path.read_text().split()] if path.exists() else []


def _kill_group(pid: int) -> None:
    """SIGKILL the child's group, or the child alone where it had no time yet to make one."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _write_line(fd: int, obj: dict[str, Any]) -> None:
    with contextlib.suppress(BrokenPipeError):
        os.write(fd, json.dumps(obj).encode() + b"\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
