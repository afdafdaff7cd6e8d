"""What the test children run."""

import ctypes
import os
import platform
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from sandbox.channel import Channel
from sandbox.seccomp import forbid_processes

TGKILL = {"x86_64": 234, "aarch64": 131}[platform.machine()]


def echo(channel: Channel) -> None:
    while True:
        obj, blobs = channel.recv()
        channel.send({"echo": obj}, *blobs)


def facts(channel: Channel) -> None:
    channel.send(
        {
            "env": dict(os.environ),
            "fds": _open_descriptors(),
            "session": os.getsid(0),
            "pid": os.getpid(),
            "cwd": str(Path.cwd()),
            "modules": sorted(sys.modules),
            "scheduler": os.sched_getscheduler(0),
            "no_new_privs": "NoNewPrivs:\t1" in Path("/proc/self/status").read_text(),
        }
    )


def _open_descriptors() -> list[int]:
    links = (f"/proc/self/fd/{fd}" for fd in range(256))
    return [fd for fd, link in enumerate(links) if Path(link).is_symlink()]


def segfault(_channel: Channel) -> None:
    ctypes.string_at(8)


def abort(_channel: Channel) -> None:
    os.write(2, b"terminate called after something\n")
    os.abort()


def illegal_instruction(_channel: Channel) -> None:
    os.kill(os.getpid(), signal.SIGILL)


def hang(_channel: Channel) -> None:
    time.sleep(3600)


def exit_seven(_channel: Channel) -> None:
    os._exit(7)


def silent(_channel: Channel) -> None:
    pass


def allocate(channel: Channel) -> None:
    obj, _ = channel.recv()
    channel.send({"bytes": len(bytearray(obj["bytes"]))})


def raises(_channel: Channel) -> None:
    raise ValueError("the shape is wrong")


def answers_then_dies(channel: Channel) -> None:
    channel.send({"error": {"type": "Soft", "message": "lives on"}})
    channel.send({"last": True}, b"x" * 300_000)
    os._exit(0)


def leaves_grandchild(channel: Channel) -> None:
    """A grandchild keeps the channel open, in the same group or in a session of its own."""
    obj, _ = channel.recv()
    pid = os.fork()
    if pid == 0:
        if obj["setsid"]:
            os.setsid()
        time.sleep(3600)
    channel.send({"grandchild": pid})


def forks_once(channel: Channel) -> None:
    pid = ctypes.CDLL(None).fork()
    if pid == 0:
        os._exit(0)
    channel.send({"forked": pid != -1})


def fork_bomb(channel: Channel) -> None:
    """Forks as fast as it can, and what else reaches other processes; each with the number of its error."""
    obj, _ = channel.recv()
    libc = ctypes.CDLL(None, use_errno=True)
    if obj["raise_the_wall"]:
        forbid_processes()
    forked = [number for number in (libc.fork() for _ in range(20_000)) if number != -1]
    tries = {
        "fork": libc.fork,
        "vfork": libc.vfork,
        "execve": lambda: libc.execv(b"/bin/true", None),
        "kill": lambda: libc.kill(os.getppid(), 0),
        "tgkill": lambda: libc.syscall(TGKILL, os.getppid(), os.getppid(), 0),
        "prlimit": lambda: libc.prlimit(os.getppid(), resource.RLIMIT_CORE, _no_limits(), None),
        "shmget": lambda: libc.shmget(0, ctypes.c_size_t(4096), 0o600),
        "msgget": lambda: libc.msgget(0, 0o600),
        "semget": lambda: libc.semget(0, 1, 0o600),
        "socket": lambda: libc.socket(1, 1, 0),
        "ptrace": lambda: libc.ptrace(16, os.getppid(), 0, 0),
    }
    errors = {name: ctypes.get_errno() if attempt() == -1 else 0 for name, attempt in tries.items()}
    # Of itself it may ask, and limit itself further.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    told: list[int] = []
    thread = threading.Thread(target=lambda: told.append(1))
    thread.start()
    thread.join()
    channel.send({"forked": len(forked), "errors": errors, "threads": len(told)})


def _no_limits() -> object:
    """A struct rlimit of two zeros."""
    return (ctypes.c_ulong * 2)(0, 0)


def pipe_for_errors(_channel: Channel) -> None:
    """Who reads its words waits for somebody who writes into the pipe."""
    Path("stderr").unlink()
    os.mkfifo("stderr")
    os.abort()


def link_for_errors(_channel: Channel) -> None:
    Path("stderr").unlink()
    Path("stderr").symlink_to("/etc/hostname")
    os.abort()


def unreadable_tree(channel: Channel) -> None:
    """Directories deeper than Python recurses, the innermost of them closed to everybody."""
    own = Path.cwd()
    for _ in range(3000):
        Path("d").mkdir()
        os.chdir("d")
    Path("file").write_text("x")
    Path.cwd()
    os.chdir("..")
    Path("d").chmod(0)
    channel.send({"directory": str(own)})
    channel.recv()


def ends_with(channel: Channel) -> None:
    """Its last word is what it was told to say."""
    obj, _ = channel.recv()
    channel.send({"final": True, "error": obj["error"]})


def long_answer(channel: Channel) -> None:
    channel.send({"text": "x" * 100_000})


def stack(channel: Channel) -> None:
    """Bytes of this thread's stack, written to its end: deep recursion is native, Python bounds its own."""
    libc = ctypes.CDLL(None)
    libc.pthread_self.restype = ctypes.c_void_p
    attributes = ctypes.create_string_buffer(256)
    lowest, size = ctypes.c_void_p(), ctypes.c_size_t()
    assert libc.pthread_getattr_np(ctypes.c_void_p(libc.pthread_self()), attributes) == 0
    assert libc.pthread_attr_getstack(attributes, ctypes.byref(lowest), ctypes.byref(size)) == 0
    assert lowest.value is not None
    ctypes.memset(lowest.value, 0, 4096)
    channel.send({"bytes": size.value, "main": threading.current_thread() is threading.main_thread()})


def spin(_channel: Channel) -> None:
    while True:
        pass


def huge_frame(channel: Channel) -> None:
    channel._sock.sendall(b"\xff" * 64)
    time.sleep(3600)


def write_file(channel: Channel) -> None:
    obj, _ = channel.recv()
    Path("out").write_bytes(b"x" * obj["bytes"])
    channel.send({"written": obj["bytes"]})


def writes_about(channel: Channel) -> None:
    """What changes files in its own directory and in another; each with the number of its error."""
    obj, _ = channel.recv()
    own, other = Path.cwd(), Path(obj["other"])
    there = other / "there"

    def moved_out() -> None:
        (own / "inner").write_text("x")
        (own / "inner").rename(other / "moved")

    tries: dict[str, Callable[[], object]] = {
        "append": lambda: there.open("a"),
        "truncate": lambda: os.truncate(there, 0),
        "unlink": there.unlink,
        "create": lambda: (other / "new").write_text("x"),
        "mkdir": (other / "directory").mkdir,
        "symlink": lambda: (other / "link").symlink_to(there),
        "rename out": moved_out,
        "fifo": lambda: os.mkfifo(other / "pipe"),
        "own create": lambda: (own / "new").write_text("x"),
        "own directory": lambda: (own / "a" / "b").mkdir(parents=True),
        "own rename": lambda: (own / "new").rename(own / "a" / "b" / "renamed"),
        "own remove": (own / "a" / "b" / "renamed").unlink,
        "null": lambda: Path(os.devnull).write_text("x"),
        "read": there.read_text,
    }
    errors = {}
    for name, attempt in tries.items():
        try:
            attempt()
            errors[name] = 0
        except OSError as error:
            errors[name] = error.errno or -1
    channel.send({"errors": errors})
