"""Children die in every way a child can die; the parent gets data, and nothing leaks."""

import errno
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox import landlock
from sandbox.channel import FrameReader, encode
from sandbox.errors import ChannelError, ChildDied, ChildTimeout, SpawnRefused
from sandbox.fork_server import ForkServer
from sandbox.limits import LARGE_STACK_BYTES, Limits
from tests.sandbox.entries import TGKILL
from tests.waiting import wait_until

ENTRIES = "tests.sandbox.entries"
PR_SET_NO_NEW_PRIVS = 38
LIMITS = Limits(cpu_secs=20)


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    with ForkServer([ENTRIES]) as server:
        yield server


def entry(name: str) -> str:
    return f"{ENTRIES}:{name}"


def process_exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_child_answers_objects_and_blobs(server):
    with server.spawn(entry("echo"), limits=LIMITS) as child:
        for blob in (b"", b"\x00" * 3, b"y" * 3_000_000):
            child.send({"n": len(blob)}, blob, b"tail")
            assert child.recv(5) == ({"echo": {"n": len(blob)}}, [blob, b"tail"])


@pytest.mark.parametrize(
    ("name", "reason", "number"),
    [
        ("segfault", "SIGSEGV", signal.SIGSEGV),
        ("abort", "SIGABRT", signal.SIGABRT),
        ("illegal_instruction", "SIGILL", signal.SIGILL),
    ],
)
def test_a_deadly_signal_is_data(server, name, reason, number):
    with server.spawn(entry(name), limits=LIMITS) as child, pytest.raises(ChildDied) as caught:
        child.recv(5)
    assert (caught.value.reason, caught.value.signal, caught.value.exit_code) == (reason, number, None)


def test_what_a_dying_child_said_is_kept(server):
    with server.spawn(entry("abort"), limits=LIMITS) as child, pytest.raises(ChildDied) as caught:
        child.recv(5)
    assert caught.value.stderr == "terminate called after something"


@pytest.mark.parametrize("name", ["pipe_for_errors", "link_for_errors"])
def test_nobody_waits_for_or_follows_what_a_child_made_of_its_words(server, name):
    with server.spawn(entry(name), limits=LIMITS) as child, pytest.raises(ChildDied) as caught:
        child.recv(5)
    assert (caught.value.signal, caught.value.stderr) == (signal.SIGABRT, "")


def test_no_tree_is_too_deep_or_too_private_to_be_removed(server):
    with server.spawn(entry("unreadable_tree"), limits=LIMITS) as child:
        directory = Path(child.recv(20)[0]["directory"])
        assert (directory / "d" / "d").is_dir()
    assert not directory.exists()


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (1, "1"),
        (None, "None"),
        (["a"], "['a']"),
        ({"message": "m"}, "None: m"),
        ({"type": {}, "message": "x" * 9000}, "{}: " + "x" * 3996),
    ],
)
def test_a_last_word_may_be_anything(server, error, reason):
    with server.spawn(entry("ends_with"), limits=LIMITS) as child:
        child.send({"error": error})
        with pytest.raises(ChildDied) as caught:
            child.recv(5)
    assert caught.value.reason == reason


def test_an_answer_is_no_longer_than_its_parent_allows(server):
    with (
        server.spawn(entry("long_answer"), limits=Limits(answer_bytes=1000)) as child,
        pytest.raises(ChannelError, match=r"announces 100011 bytes"),
    ):
        child.recv(5)


def test_a_child_that_cannot_have_a_directory_is_refused(tmp_path):
    with (
        ForkServer([ENTRIES], work_dir=tmp_path / "gone") as server,
        pytest.raises(SpawnRefused, match=r"no directory.*gone"),
    ):
        server.spawn(entry("echo"), limits=LIMITS)


def test_a_child_that_cannot_be_confined_is_refused_and_has_not_died(server):
    """A host that took its cores away is no fault of what would have run: no CPU has that number."""

    def ask():
        with server.spawn(entry("echo"), limits=Limits(cpus=(1023,))) as child:
            child.send({})
            child.recv(5)

    # Its word may come before the server's, or after.
    for _ in range(20):
        with pytest.raises(SpawnRefused, match=r"confine: .*Invalid argument"):
            ask()


def test_an_exit_code_is_data(server):
    with server.spawn(entry("exit_seven"), limits=LIMITS) as child, pytest.raises(ChildDied) as caught:
        child.recv(5)
    assert (caught.value.exit_code, caught.value.signal) == (7, None)


def test_a_child_that_ends_without_an_answer_died(server):
    with server.spawn(entry("silent"), limits=LIMITS) as child:
        with pytest.raises(ChildDied, match="ended before it answered"):
            child.recv(5)
        assert child.wait(1).exit_code == 0


def test_an_exception_arrives_with_its_type_and_message(server):
    with server.spawn(entry("raises"), limits=LIMITS) as child, pytest.raises(ChildDied) as caught:
        child.recv(5)
    assert caught.value.reason == "ValueError: the shape is wrong"
    assert caught.value.exit_code == 1


def test_an_unknown_entry_names_itself(server):
    with (
        server.spawn(entry("no_such"), limits=LIMITS) as child,
        pytest.raises(ChildDied, match=r"AttributeError.*no_such"),
    ):
        child.recv(5)


def test_answers_sent_before_the_end_are_not_lost(server):
    with server.spawn(entry("answers_then_dies"), limits=LIMITS) as child:
        child.wait(5)
        assert child.recv(1)[0] == {"error": {"type": "Soft", "message": "lives on"}}
        assert len(child.recv(1)[1][0]) == 300_000
        with pytest.raises(ChildDied):
            child.recv(1)


def test_memory_beyond_the_limit_is_a_memory_error(server):
    limits = Limits(address_space_bytes=512 << 20)
    with server.spawn(entry("allocate"), limits=limits) as child:
        child.send({"bytes": 1 << 30})
        with pytest.raises(ChildDied, match="MemoryError"):
            child.recv(5)
    with server.spawn(entry("allocate"), limits=limits) as child:
        child.send({"bytes": 1 << 20})
        assert child.recv(5)[0] == {"bytes": 1 << 20}


def test_processor_time_beyond_the_limit_ends_the_child(server):
    with server.spawn(entry("spin"), limits=Limits(cpu_secs=1)) as child, pytest.raises(ChildDied) as caught:
        child.recv(10)
    assert caught.value.signal in (signal.SIGXCPU, signal.SIGKILL)


def test_a_file_beyond_the_limit_is_refused(server):
    limits = Limits(file_size_bytes=1000)
    with server.spawn(entry("write_file"), limits=limits) as child:
        child.send({"bytes": 2000})
        with pytest.raises(ChildDied, match=r"OSError.*too large"):
            child.recv(5)


def test_a_hanging_child_times_out_and_is_killed_with_its_directory(server):
    with server.spawn(entry("hang"), limits=LIMITS) as child:
        began = time.monotonic()
        with pytest.raises(ChildTimeout):
            child.recv(0.2)
        assert 0.15 < time.monotonic() - began < 2
        assert child.directory.is_dir()
    assert not process_exists(child.pid)
    assert not child.directory.exists()


def test_kill_from_another_thread_ends_a_waiting_receive(server):
    with server.spawn(entry("hang"), limits=LIMITS) as child:
        timer = threading.Timer(0.1, child.kill)
        timer.start()
        with pytest.raises(ChildDied) as caught:
            child.recv(10)
        assert caught.value.signal == signal.SIGKILL
        timer.join()


@pytest.mark.parametrize("setsid", [False, True])
def test_a_grandchild_that_keeps_the_channel_neither_blocks_nor_survives(server, setsid):
    with server.spawn(entry("leaves_grandchild"), limits=Limits(may_start_processes=True)) as child:
        child.send({"setsid": setsid})
        grandchild = child.recv(5)[0]["grandchild"]
        assert child.wait(2).exit_code == 0
        with pytest.raises(ChildDied, match="ended before it answered"):
            child.recv(2)
    wait_until(lambda: not process_exists(grandchild))


@pytest.mark.parametrize("raised_by_itself", [False, True])
def test_a_fork_bomb_makes_no_process_and_reaches_none(server, raised_by_itself):
    limits = Limits(cpu_secs=20, may_start_processes=raised_by_itself)
    before = len(list(Path("/proc").glob("[0-9]*/stat")))
    with server.spawn(entry("fork_bomb"), limits=limits) as child:
        child.send({"raise_the_wall": raised_by_itself})
        answer, _ = child.recv(20)
    assert answer["forked"] == 0
    assert set(answer["errors"].values()) == {errno.EPERM}, answer["errors"]
    assert answer["threads"] == 1
    assert len(list(Path("/proc").glob("[0-9]*/stat"))) < before + 1000


def test_the_wall_of_system_calls_alone_lets_a_process_signal_none_but_itself():
    """Landlock refuses signals too, but only newer kernels' does."""
    code = f"""
import ctypes, os
from sandbox.seccomp import forbid_processes
libc = ctypes.CDLL(None, use_errno=True)
libc.prctl({PR_SET_NO_NEW_PRIVS}, 1, 0, 0, 0)
forbid_processes()
print(libc.syscall({TGKILL}, os.getppid(), os.getppid(), 0), ctypes.get_errno(), flush=True)
os.abort()
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=20, check=False
    )
    assert (done.returncode, done.stdout.split()) == (-signal.SIGABRT, ["-1", str(errno.EPERM)]), done.stderr


@pytest.mark.skipif(landlock.version() < 3, reason="this kernel has no Landlock that knows truncation")
@pytest.mark.parametrize("may_start_processes", [False, True])
def test_a_child_writes_in_its_own_directory_alone(server, tmp_path, may_start_processes):
    (tmp_path / "there").write_text("as it was")
    limits = Limits(cpu_secs=20, may_start_processes=may_start_processes)
    with server.spawn(entry("writes_about"), limits=limits) as child:
        child.send({"other": str(tmp_path)})
        errors = child.recv(10)[0]["errors"]
    allowed = {"own create", "own directory", "own rename", "own remove", "null", "read"}
    assert {name for name, number in errors.items() if number == 0} == allowed
    # Moving a file out of its directory is refused as moving it to another device would be.
    assert {number for number in errors.values() if number} <= {errno.EACCES, errno.EXDEV}
    assert [path.name for path in tmp_path.iterdir()] == ["there"]
    assert (tmp_path / "there").read_text() == "as it was"


def test_a_frame_that_is_none_kills_its_sender(server):
    with server.spawn(entry("huge_frame"), limits=LIMITS) as child:
        with pytest.raises(ChannelError, match="announces"):
            child.recv(5)
        assert child.wait(5).signal == signal.SIGKILL


def test_a_child_is_alone(server, monkeypatch):
    monkeypatch.setenv("TILEFARM_TOKEN", "secret")
    with server.spawn(entry("facts"), limits=Limits(idle_priority=True)) as child:
        facts, _ = child.recv(5)
        assert facts["cwd"] == str(child.directory)
    assert facts["fds"] == [0, 1, 2, 3]
    assert facts["session"] == facts["pid"] == child.pid
    assert facts["no_new_privs"]
    assert facts["scheduler"] == os.SCHED_IDLE
    assert "TILEFARM_TOKEN" not in facts["env"]
    assert facts["env"]["OPENBLAS_NUM_THREADS"] == "1"
    assert ENTRIES in facts["modules"]


def test_a_large_stack_can_be_used_to_its_end(server):
    with server.spawn(entry("stack"), limits=Limits(large_stack=True)) as child:
        found = child.recv(20)[0]
    assert found["bytes"] > LARGE_STACK_BYTES - 2**20
    assert not found["main"]


def test_two_hundred_children_leak_neither_descriptor_nor_zombie(server):
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    server_fds = Path(f"/proc/{server.pid}/fd")
    server_descriptors = len(list(server_fds.iterdir()))
    for number in range(200):
        name = ("echo", "segfault", "exit_seven", "hang")[number % 4]
        with server.spawn(entry(name), limits=LIMITS) as child:
            if name == "echo":
                child.send({"n": number})
                assert child.recv(5)[0] == {"echo": {"n": number}}
    assert len(list(Path("/proc/self/fd").iterdir())) == descriptors
    # It lets go of a child's a moment after the child's end, also of the one before this test.
    wait_until(lambda: len(list(server_fds.iterdir())) <= server_descriptors)
    assert Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text() == ""


def test_threads_share_one_server(server):
    answers: list[int] = []

    def work(number: int) -> None:
        for _ in range(5):
            with server.spawn(entry("echo"), limits=LIMITS) as child:
                child.send({"n": number})
                answers.append(child.recv(10)[0]["echo"]["n"])

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == sorted(list(range(8)) * 5)


def test_frames_are_cut_wherever_the_stream_is_cut():
    stream = encode({"a": 1}, (b"xy", b"")) + encode({"b": [2]}, ())
    reader = FrameReader()
    for at in range(len(stream)):
        reader.feed(stream[at : at + 1])
    assert [reader.pop(), reader.pop(), reader.pop()] == [({"a": 1}, [b"xy", b""]), ({"b": [2]}, []), None]


def test_a_frame_beyond_the_cap_is_refused_before_it_is_read():
    stream = encode({}, (b"z" * 100,))
    with pytest.raises(ChannelError, match="102 bytes; 50 are allowed"):
        FrameReader(max_bytes=50).feed(stream[:20])
    with pytest.raises(ChannelError, match="larger than allowed"):
        encode({}, (b"z" * 100,), max_bytes=50)
