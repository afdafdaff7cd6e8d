"""What traces have sampled, under names that traces of one search share; what it explains of the latency."""

import pytest

from services.dashboard.decisions import axes, decisions_of, explained


def trace(tile: list[int], *, unroll: int = 0, at: int = -1, shift: int = 0) -> list:
    """As a search stores it; `shift` renames its variables, as another sketch would."""
    loop, choice = f"l{3 + shift}", f"v{20 + shift}"
    return [
        [
            ["GetSBlock", [], ["C", "main"], ["b0"]],
            ["GetLoops", ["b0"], [], ["l2", loop]],
            ["SamplePerfectTile", [loop], [3, 64], ["v5", "v6", "v7"]],
            ["Split", [loop, "v5", "v6", "v7"], [True, False], ["l9", "l10", "l11"]],
            ["SampleCategorical", [], [[0, 16, 64], [0.3, 0.3, 0.4]], [choice]],
            ["Annotate", ["b0", choice], ["meta_schedule.unroll_explicit"], []],
            ["GetConsumers", ["b0"], [], ["b7"]],
            ["SampleComputeLocation", ["b7"], [], ["l30"]],
            ["EnterPostproc", [], [], []],
        ],
        [[2, tile], [4, unroll], [7, at]],
    ]


def test_decisions_are_named_by_what_they_are_for():
    assert decisions_of(trace([8, 4, 2], unroll=2, at=-2)) == {
        ("C loop 1 tile", "2 of 3"): 4,
        ("C loop 1 tile", "3 of 3"): 2,
        ("unroll explicit", ""): 64,
        ("consumer of C computed at", ""): "root",
    }
    assert decisions_of(trace([8, 4, 2], shift=4)) == decisions_of(trace([8, 4, 2]))


@pytest.mark.parametrize("broken", [None, [], [[["SamplePerfectTile", ["l1"]]], []], [[], [["x", 1]]]])
def test_what_is_no_trace_has_no_decisions(broken):
    assert decisions_of(broken) == {}


def test_the_axis_that_tells_most_comes_first_and_constants_are_none():
    traces = [trace([8, 1, inner], unroll=unroll) for inner in (1, 2, 4) for unroll in (0, 1, 2)] * 3
    latencies = [1e-3 / inner for inner in (1, 2, 4) for _ in range(3)] * 3
    found = axes(traces, latencies, most=5)
    assert [(axis.name, axis.part) for axis in found] == [
        ("C loop 1 tile", "3 of 3"),
        ("unroll explicit", ""),
    ]
    assert found[0].explains == pytest.approx(1.0)
    assert found[1].explains == 0.0
    assert found[0].values[:4] == [1, 1, 1, 2]
    assert len(axes(traces, latencies, most=1)) == 1


def test_a_value_of_its_own_for_each_trial_explains_nothing():
    assert explained(list(range(8)), [1.0, 5.0, 2.0, 7.0, 3.0, 9.0, 4.0, 8.0]) == 0.0
    assert explained(["a", "a", "b", "b"], [1.0, 1.0, 1.0, 1.0]) == 0.0
