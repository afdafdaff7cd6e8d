"""Outputs are compared after the timing as well: a race shows in some runs only."""

import pytest

from db.states import Outcome
from workers.candidate import check_again
from workers.stages import Ended


class Racing:
    """Right in its first calls; stands for the arguments as well."""

    def __init__(self, *, wrong_at):
        self.calls, self.refills, self._wrong_at = 0, 0, wrong_at

    def __call__(self):
        self.calls += 1

    def refill(self):
        self.refills += 1

    def difference(self):
        return "output 'C' is wrong" if self.calls == self._wrong_at else None


def test_a_run_that_is_wrong_now_and_then_ends_as_wrong_output():
    program = Racing(wrong_at=4)
    with pytest.raises(Ended, match="'C' is wrong; an earlier run of the same program was right") as ended:
        check_again(program, program, for_secs=10.0)
    assert ended.value.outcome == Outcome.WRONG_OUTPUT
    assert program.calls == program.refills == 4


@pytest.mark.parametrize(("secs", "calls"), [(0.0, 1), (10.0, 8)])
def test_it_is_run_once_at_least_and_not_for_ever(secs, calls):
    program = Racing(wrong_at=None)
    check_again(program, program, for_secs=secs)
    assert program.calls == calls
