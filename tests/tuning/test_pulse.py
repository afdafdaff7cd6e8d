"""When the loop rests and when it does not; the times are bounds that a slow machine keeps too."""

import time

import pytest

from services.tuning.pulse import Pulse

#: Of a rest that nothing ends, seconds: a breath and the pause between ticks, which is long here.
LONG_SECS = 30.0


@pytest.fixture
def pulse() -> Pulse:
    return Pulse(tick_secs=LONG_SECS)


def rested(pulse: Pulse, *, acted: bool = False) -> float:
    began = time.monotonic()
    pulse.rest(acted=acted)
    return time.monotonic() - began


def test_results_do_not_cause_a_tick_each_but_the_last_one_does(pulse: Pulse) -> None:
    pulse.look(under_way=3)
    pulse.ended(2)
    assert 0.15 < rested(pulse) < LONG_SECS, "a device still works: the loop takes a breath"
    pulse.look(under_way=1)
    pulse.ended(1)
    assert rested(pulse) < 0.15


def test_what_was_sent_since_the_loop_looked_is_under_way_too(pulse: Pulse) -> None:
    pulse.look(under_way=0)
    pulse.sent(2)
    pulse.ended(1)
    assert rested(pulse) > 0.15


def test_while_no_device_works_a_tick_follows_at_once_on_one_that_did_something() -> None:
    pulse = Pulse(tick_secs=0.0)
    pulse.look(under_way=0)
    assert rested(pulse, acted=True) < 0.15
    assert rested(pulse) > 0.15
    assert max(rested(pulse, acted=True) for _ in range(20)) > 0.15, "but not for ever"


def test_a_rest_is_ended_by_what_must_not_wait(pulse: Pulse) -> None:
    pulse.look(under_way=5)
    pulse.hurry()
    assert rested(pulse) < 0.15
    pulse.look(under_way=0)
    pulse.wake()
    assert rested(pulse) < 0.15
