"""The lock of a core: waited for in the kernel's order, given up at any time, and never kept by mistake."""

import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sandbox.child import Child
from tests.waiting import wait_until
from workers.core_lock import CoreLock
from workers.errors import DeviceUnwanted
from workers.turn import Turn


@contextmanager
def elsewhere(path: Path) -> Iterator[None]:
    """Another process has the lock: a descriptor of its own is as good."""
    lock_fd = os.open(path, os.O_RDONLY | os.O_CREAT)
    fcntl.flock(lock_fd, fcntl.LOCK_EX)
    try:
        yield
    finally:
        os.close(lock_fd)


def waiters() -> int:
    return sum(thread.name == "core-lock" for thread in threading.enumerate())


def is_free(path: Path) -> bool:
    try:
        with elsewhere_now(path):
            return True
    except BlockingIOError:
        return False


@contextmanager
def elsewhere_now(path: Path) -> Iterator[None]:
    lock_fd = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(lock_fd)


def test_a_wait_is_given_up_as_often_as_one_likes_and_costs_one_thread(tmp_path: Path) -> None:
    lock = CoreLock(tmp_path / "core")
    with elsewhere(lock.path):
        for _ in range(3):
            with pytest.raises(DeviceUnwanted, match="core"), lock.held(given_up=lambda: True):
                pass
            assert waiters() == 1
    wait_until(lambda: waiters() == 0)
    assert is_free(lock.path), "what nobody wants any more is handed on"
    with lock.held(given_up=lambda: True):
        assert not is_free(lock.path), "what is free is taken, however impatient one is"
    assert is_free(lock.path)


def test_who_comes_after_one_that_gave_up_gets_the_lock(tmp_path: Path) -> None:
    lock, entered = CoreLock(tmp_path / "core"), threading.Event()

    def enter() -> None:
        with lock.held(given_up=lambda: False):
            entered.set()

    with elsewhere(lock.path):
        with pytest.raises(DeviceUnwanted), lock.held(given_up=lambda: True):
            pass
        thread = threading.Thread(target=enter)
        thread.start()
        assert not entered.wait(0.3)
    assert entered.wait(5)
    thread.join()
    assert is_free(lock.path)


def test_threads_of_one_process_take_turns_and_give_up_too(tmp_path: Path) -> None:
    lock = CoreLock(tmp_path / "core")
    raised: list[Exception] = []

    def give_up() -> None:
        try:
            with lock.held(given_up=lambda: True):
                pass
        except DeviceUnwanted as error:
            raised.append(error)

    with lock.held(given_up=lambda: False):
        thread = threading.Thread(target=give_up)
        thread.start()
        thread.join(5)
    assert len(raised) == 1
    assert is_free(lock.path)


def test_a_test_is_unwanted_while_a_chunk_is_there_and_when_the_worker_ends() -> None:
    class Killed(Child):
        def __init__(self) -> None:
            self.kills = 0

        def kill(self) -> None:
            self.kills += 1

    turn, child = Turn(), Killed()
    assert not turn.test_unwanted()
    with turn.chunk():
        assert turn.test_unwanted()
    turn.end_tests()
    assert turn.test_unwanted()
    with turn.test(child):
        assert child.kills == 1, "a test that begins after the end ends, too"
