"""Real candidates on the real TVM: each way to fare has its outcome, and its reason names what happened."""

import statistics

import pytest

from db.states import Outcome, Purpose
from tests.workers.conftest import EMPTY_TRACE


def test_an_ordinary_candidate_is_timed(bench, authored):
    outcome, = bench.measure(authored["mm"], authored["mm_tiled"])
    assert outcome.outcome == Outcome.OK, outcome.error
    assert 3 <= len(outcome.run_secs) <= 20
    gflops = 2 * 128**3 / statistics.median(outcome.run_secs) / 1e9
    assert 1 < gflops < 2000
    assert {"replay", "build", "load", "check", "measure", "wait"} == set(outcome.stage_secs)
    assert [(started.trial_id, started.attempt) for started in bench.started] == [(0, 1)]
    assert outcome.device_class == bench.device.device_class
    assert outcome.tvm_version.startswith("0.27")
