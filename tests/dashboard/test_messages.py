"""Equal causes become one message, different ones do not; how numbers read; sparklines."""

import pytest

from db.states import Outcome
from services.dashboard import words
from services.dashboard.causes import Cause
from services.dashboard.failure_groups import grouped
from services.dashboard.history import sparkline
from services.dashboard.messages import normalised


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("signal 11 at 0x7ffd12ab", "signal 11 at 0x55aa"),
        ("limit of 30 s passed", "limit of 4.5 s passed"),
        ("/tmp/a1/lib.so: no symbol", "/home/b/c.so: no symbol"),
        ("block T_relu_3 not found", "block T_relu_12 not found"),
        (
            'Traceback (most recent call last):\n  File "x.py", line 3\nValueError: 7 is odd',
            "Traceback (most recent call last):\n  other\nValueError: 9 is odd",
        ),
    ],
)
def test_what_differs_by_numbers_paths_and_addresses_is_one_message(one, other):
    assert normalised(one) == normalised(other)


def test_different_causes_stay_apart():
    causes = ["out of memory", "signal 11", "ValueError: odd", "", "ValueError: even"]
    assert len({normalised(cause) for cause in causes}) == 5


def cause(trial_id: int, message: str, outcome=Outcome.BUILD_ERROR) -> Cause:
    return Cause(
        trial_id=trial_id, outcome=outcome, message=message, task_name="mm", worker_id=f"w{trial_id % 2}"
    )


def test_groups_come_by_frequency_with_their_newest_examples():
    causes = [cause(n, "needs ⟨n⟩ bytes") for n in range(20, 10, -1)]
    causes += [cause(3, "no"), cause(2, "needs ⟨n⟩ bytes", Outcome.RUN_ERROR)]
    groups = grouped(causes)
    assert [(group.message, group.outcome, group.count) for group in groups] == [
        ("needs ⟨n⟩ bytes", Outcome.BUILD_ERROR, 10),
        ("no", Outcome.BUILD_ERROR, 1),
        ("needs ⟨n⟩ bytes", Outcome.RUN_ERROR, 1),
    ]
    assert groups[0].examples == [20, 19, 18, 17, 16]
    assert groups[0].workers == {"w0", "w1"}


@pytest.mark.parametrize(
    ("secs", "text"),
    [
        (None, "–"),
        (1234.0, "1\u202f234 s"),
        (1.5, "1.50 s"),
        (0.0123, "12.3 ms"),
        (1.64e-5, "16.4 µs"),
        (3e-9, "3.00 ns"),
    ],
)
def test_latencies_have_three_figures_and_their_unit(secs, text):
    assert words.latency(secs) == text


@pytest.mark.parametrize(
    ("secs", "text"),
    [
        (None, "–"),
        (0.2, "0 s"),
        (59.7, "1 min"),
        (200, "3 min 20 s"),
        (3600, "1 h"),
        (7380, "2 h 3 min"),
        (200_000, "2 d 7 h"),
    ],
)
def test_spans_have_their_two_largest_units(secs, text):
    assert words.span(secs) == text


def test_a_sparkline_falls_from_top_to_bottom_and_needs_two_values():
    assert sparkline([4.0], width=10, height=22) == ""
    assert sparkline([4.0, 2.0, 1.0], width=9, height=22) == "M0.0 1.0H3.0V11.0H6.0V21.0H9.0"
