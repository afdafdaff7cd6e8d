"""What other libraries take beside our programs: asked again and again, for a host's speed changes."""

from collections import deque

from bench import space_comparing, vendors
from bench.workloads import workload


def test_a_librarys_time_is_the_middle_one_of_all_moments(monkeypatch):
    told = {"numpy": deque([3.0, 1.0, 9.0]), "torch": deque([None, None, None])}
    monkeypatch.setattr(vendors, "secs", lambda library, *_: told[library].popleft())
    libraries = space_comparing._Libraries(workload("GMM-128"), {"kind": "llvm"})
    for _ in range(3):
        libraries.ask()
    assert libraries.secs == {"numpy": 3.0, "torch": None}
