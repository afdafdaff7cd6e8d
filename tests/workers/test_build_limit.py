"""How long a build may take, by what the search's other builds took."""

import pytest

from workers.build_limit import BuildTimes
from workers.messages import MeasurePolicy

POLICY = MeasurePolicy(build_timeout_secs=10.0, slow_build_ratio=8.0, slow_build_secs=1.0)


def _times(*secs: float) -> BuildTimes:
    times = BuildTimes()
    for each in secs:
        times.add(1, each)
    return times


@pytest.mark.parametrize(
    ("secs", "limit"),
    [
        ((), 10.0),
        ((0.3,), 10.0),
        ((0.1,) * 4, 2.0),
        ((0.3,) * 8, 2.4),
        ((0.01,) * 20, 1.0),
        ((5.0,) * 20, 10.0),
    ],
)
def test_a_build_may_take_a_multiple_of_the_searchs_median(secs: tuple[float, ...], limit: float) -> None:
    assert _times(*secs).limit_secs(1, POLICY) == pytest.approx(limit)


def test_one_search_knows_nothing_of_another() -> None:
    assert _times(*[0.3] * 8).limit_secs(2, POLICY) == 10.0


def test_only_the_newest_builds_count() -> None:
    assert _times(*[0.01] * 100, *[0.5] * 64).limit_secs(1, POLICY) == pytest.approx(4.0)


def test_searches_of_long_ago_are_forgotten() -> None:
    times = BuildTimes()
    for search_id in range(100):
        for _ in range(8):
            times.add(search_id, 0.3)
    assert times.limit_secs(0, POLICY) == 10.0
    assert times.limit_secs(99, POLICY) == pytest.approx(2.4)


@pytest.mark.parametrize(
    ("secs", "limit", "provisional"),
    [
        ((), 2.0, True),
        ((3.0,) * 7, 2.0, True),
        ((0.1,) * 7, 8.0 / 7.0, False),
        ((0.3,) * 8, 2.4, False),
        ((3.0,) * 8, 10.0, False),
    ],
)
def test_a_first_try_is_short_while_few_builds_are_known(
    secs: tuple[float, ...], limit: float, *, provisional: bool
) -> None:
    first = _times(*secs).first_limit(1, POLICY)
    assert first.secs == pytest.approx(limit)
    assert first.provisional == provisional
