"""When memory over many candidates counts as flat, and how the bad ones are mixed in."""

import pytest

from bench.memory import _mixed, flat

STEADY = {
    "worker": 100 << 20,
    "fork_server": 200 << 20,
    "worker_files": 7,
    "fork_server_files": 5,
    "processes": 0,
}


@pytest.mark.parametrize(
    ("what", "more", "expected"),
    [("worker", 7 << 20, True), ("worker", 9 << 20, False), ("fork_server", 9 << 20, False),
     ("worker_files", 1, False), ("fork_server_files", 1, False), ("processes", 1, False)],
)  # fmt: skip
def test_growth_after_the_first_quarter_is_a_leak(what: str, more: int, *, expected: bool) -> None:
    samples = [{**STEADY, "candidates": number} for number in range(8)]
    samples[-1][what] += more
    assert flat(samples) is expected


def test_every_fifth_candidate_is_bad_of_each_kind_in_turn() -> None:
    mixed = _mixed([str(number) for number in range(10)], ["crash", "hang"])
    assert len(mixed) == 20
    assert mixed[4::5] == ["crash", "hang", "crash", "hang"]
    assert mixed[:4] == ["0", "1", "2", "3"]
