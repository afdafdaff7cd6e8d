"""Two tries: the second comes after everything that waited, and none is left when it is ended."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from workers.tries import Tries


def test_a_second_try_waits_behind_the_others() -> None:
    told: list[str] = []
    with ThreadPoolExecutor(1) as pool:
        gate = threading.Event()
        pool.submit(gate.wait)
        tries = [
            Tries(pool, lambda: told.append("a") is None, lambda: told.append("a again")),
            Tries(pool, lambda: told.append("b") is not None, lambda: told.append("b again")),
        ]
        gate.set()
        for each in tries:
            each.result()
    assert told == ["a", "b", "a again"]


def test_what_a_try_raises_reaches_who_waits() -> None:
    def fail() -> None:
        raise OSError("no room")

    with ThreadPoolExecutor(1) as pool, pytest.raises(OSError, match="no room"):
        Tries(pool, lambda: True, fail).result()


def test_after_its_end_nothing_of_it_runs() -> None:
    told: list[str] = []
    with ThreadPoolExecutor(1) as pool:
        gate, begun = threading.Event(), threading.Event()

        def first() -> bool:
            begun.set()
            return gate.wait(10)

        running = Tries(pool, first, lambda: told.append("again"))
        waiting = Tries(pool, lambda: told.append("never") is None, lambda: None)
        begun.wait(10)
        ending = threading.Thread(target=running.end)
        ending.start()
        waiting.end()
        gate.set()
        ending.join(10)
    assert told == []
