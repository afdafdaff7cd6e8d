"""Real candidates on the real TVM: each way to fare has its outcome, and its reason names what happened."""

import dataclasses
import os
import statistics
import threading
import time
from itertools import pairwise

import pytest

from db.states import Outcome, Purpose
from tests.workers.conftest import EMPTY_TRACE, INT64, place_reference
from workers.device import find_device
from workers.holding import Attempt, Holding
from workers.messages import MessageError
from workers.reference_files import read_reference
from workers.shot import Shot

ORDINARY_STAGES = {"start", "replay", "build", "load", "check", "measure", "wait", "end"}


def test_an_ordinary_candidate_is_timed(bench, authored):
    (outcome,) = bench.measure(authored["mm"], authored["mm_tiled"])
    assert outcome.outcome == Outcome.OK, outcome.error
    assert 3 <= len(outcome.run_secs) <= 20
    gflops = 2 * 128**3 / statistics.median(outcome.run_secs) / 1e9
    assert 1 < gflops < 2000
    assert set(outcome.stage_secs) == ORDINARY_STAGES
    assert [(started.trial_id, started.attempt) for started in bench.started] == [(0, 1)]
    assert outcome.device_class == bench.device.device_class
    assert outcome.tvm_version.startswith("0.27")


def test_without_a_linker_code_is_loaded_in_process(bench, authored):
    bench.linker = None
    (outcome,) = bench.measure(authored["mm"], authored["mm_tiled"])
    assert outcome.outcome == Outcome.OK, outcome.error


@pytest.mark.parametrize(
    "name",
    ["conv_int64", "add_int64", "dense", "in_place", "scale", "log", "half", "bfloat", "bools", "gather"],
)
def test_every_kind_of_workload_runs_untuned_and_is_checked(bench, authored, name):
    (outcome,) = bench.measure(authored[name], EMPTY_TRACE, purpose=Purpose.BASELINE)
    assert outcome.outcome == Outcome.OK, outcome.error
    assert all(0 < secs < 0.1 for secs in outcome.run_secs)


def test_a_flushed_cache_makes_a_kernel_that_lives_in_it_slower(bench, authored):
    """256 KiB, read by all cores at random and one after the other: from memory ten times as slow."""
    policy = {"min_repeat": 10, "max_repeat": 20, "input_ranges": ((1, 0, 65528),)}
    kept, flushed = (
        bench.measure(authored["chase"], EMPTY_TRACE, flush_cache=flush, **policy)[0]
        for flush in (False, True)
    )
    assert flushed.outcome == Outcome.OK, flushed.error
    assert min(flushed.run_secs) > 2 * min(kept.run_secs)


def test_a_gather_takes_its_indices_from_the_range_that_the_job_declares(bench, authored):
    (declared,) = bench.measure(authored["gather"], EMPTY_TRACE, input_ranges=((1, 9, 16),))
    (outside,) = bench.measure(authored["gather"], EMPTY_TRACE, input_ranges=((1, 10**8, 2 * 10**8),))
    assert declared.outcome == Outcome.OK, declared.error
    assert outside.outcome == Outcome.REJECTED
    indices = [read_reference(place).inputs()[1] for place in (bench.directory / "references").iterdir()]
    assert [(array.min() >= 9, array.max() <= 15) for array in indices] == [(True, True)]


def test_a_wrong_output_says_where_and_by_how_much(bench, authored):
    (outcome,) = bench.measure(authored["mm"], authored["mm_wrong"])
    assert outcome.outcome == Outcome.WRONG_OUTPUT
    assert outcome.run_secs is None
    assert "output 'C' is " in outcome.error
    assert "largest absolute difference" in outcome.error


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_a_long_sum_in_few_bits_is_judged_too(bench, authored, dtype):
    """TVM keeps what stays inside of a kernel in more bits, and the order is the schedule's."""
    narrow = authored["narrow"][dtype]
    traces = [narrow[name] for name in ("wrong", "kept_wide", "in_parts")]
    outcomes = bench.measure(narrow["module"], *traces)
    assert [outcome.outcome for outcome in outcomes] == [Outcome.WRONG_OUTPUT, Outcome.OK, Outcome.OK], [
        outcome.error for outcome in outcomes
    ]


def test_a_trace_that_does_not_fit_is_rejected(bench, authored):
    for trace in (authored["mm_tiled"], '[[["NoSuch", [], [], []]], []]', "not json"):
        (outcome,) = bench.measure(authored["scale"], trace)
        assert outcome.outcome == Outcome.REJECTED
        assert outcome.error


def test_an_endless_compile_is_a_build_timeout(bench, authored):
    began = time.monotonic()
    (outcome,) = bench.measure(authored["mm"], authored["mm_unrolled"], build_timeout_secs=1.0)
    assert outcome.outcome == Outcome.BUILD_TIMEOUT
    assert "more than 1 s" in outcome.error
    assert outcome.stage_secs["build"] >= 1.0
    assert time.monotonic() - began < 15


def test_a_first_build_is_cut_short_and_tried_again_after_the_others(bench, authored):
    """Nothing is known of the search: what is short of time gets it once the others had theirs."""
    began = time.monotonic()
    endless, *others = bench.measure(
        authored["mm"],
        authored["mm_unrolled"],
        *[authored["mm_tiled"]] * 2,
        slow_build_secs=0.001,
        slow_build_ratio=1000.0,
        build_timeout_secs=2.0,  # in three a fast host meets the limit of memory first
    )
    assert [outcome.outcome for outcome in others] == [Outcome.OK] * 2
    assert endless.outcome == Outcome.BUILD_TIMEOUT
    assert "more than 2 s" in endless.error
    assert time.monotonic() - began < 15


def test_an_endless_run_is_a_run_timeout(bench, authored):
    place_reference(bench, authored["endless"], INT64)
    began = time.monotonic()
    (outcome,) = bench.measure(
        authored["endless"], EMPTY_TRACE, purpose=Purpose.BASELINE, run_timeout_secs=0.5
    )
    assert outcome.outcome == Outcome.RUN_TIMEOUT
    assert "more than 0.5 s" in outcome.error
    assert time.monotonic() - began < 15


def test_a_slow_candidate_is_cut_off_by_its_alarm(bench, authored):
    place_reference(bench, authored["endless"], INT64)
    (outcome,) = bench.measure(authored["endless"], EMPTY_TRACE, best_latency_secs=1e-3, cut_off_ratio=6.0)
    assert outcome.outcome == Outcome.CUT_OFF
    assert outcome.run_secs == pytest.approx((6e-3,))
    assert "stopped after 0.02 s" in outcome.error
    assert "the best so far" in outcome.error
    assert {"start", "replay", "build", "wait", "measure"} <= set(outcome.stage_secs)
    assert outcome.stage_secs["measure"] >= 20e-3


def test_a_short_but_slow_candidate_is_cut_off_by_its_probe_and_the_best_that_a_heartbeat_told(
    bench, authored
):
    bench.holding.note_bests({1: 1e-6, 2: 1e-9})
    (outcome,) = bench.measure(authored["mm"], authored["mm_slow"], best_latency_secs=1.0, cut_off_ratio=6.0)
    assert outcome.outcome == Outcome.CUT_OFF
    assert outcome.run_secs[0] > 6e-6


def test_too_little_memory_is_an_outcome_and_not_a_death_of_the_worker(bench, authored):
    bench.measure(authored["mm"], EMPTY_TRACE)
    (outcome,) = bench.measure(authored["mm"], authored["mm_tiled"], memory_limit_bytes=1 << 20)
    assert outcome.outcome == Outcome.BUILD_ERROR


@pytest.mark.parametrize(("name", "reason"), [("scalar", "'n'"), ("crash", "SIGSEGV")])
def test_a_workload_without_reference_rejects_all_its_trials_with_the_reason(bench, authored, name, reason):
    outcomes = bench.measure(authored[name], EMPTY_TRACE, EMPTY_TRACE)
    assert [outcome.outcome for outcome in outcomes] == [Outcome.REJECTED] * 2
    for outcome in outcomes:
        assert outcome.error.startswith("reference: the module as submitted did not run on generated inputs:")
        assert reason in outcome.error


def test_a_mixed_chunk_answers_each_trial_in_its_way(bench, authored):
    traces = [authored["mm_tiled"], authored["mm_wrong"], EMPTY_TRACE, "junk", *[authored["mm_tiled"]] * 8]
    outcomes = bench.measure(authored["mm"], *traces)
    kinds = [outcome.outcome for outcome in outcomes]
    assert kinds[1:4] == [Outcome.WRONG_OUTPUT, kinds[2], Outcome.REJECTED]
    assert [kinds[0], *kinds[4:]] == [Outcome.OK] * 9
    assert bench.holding.held() == []


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core leaves none to build on meanwhile")
@pytest.mark.parametrize(("num_cores", "side_by_side"), [(1, True), (2, False)])
def test_who_leaves_a_core_is_measured_while_the_next_is_built_and_who_takes_all_of_them_never(
    bench, authored, monkeypatch, num_cores, side_by_side
):
    bench.device = dataclasses.replace(bench.device, cpus=tuple(sorted(os.sched_getaffinity(0)))[:2])
    bench.detected = dataclasses.replace(
        bench.detected, target={**bench.detected.target, "num-cores": num_cores}
    )
    builds, measurements = (_spans(monkeypatch, name) for name in ("build", "measure"))
    measurer = bench.measurer()
    measurer.max_waiting = 4
    measurer.run(bench.chunk(authored["mm"], *[authored["mm_tiled"]] * 12))
    assert [outcome.outcome for outcome in bench.outcomes] == [Outcome.OK] * 12
    overlap = any(began < until and since < ended for began, ended in builds for since, until in measurements)
    assert overlap is side_by_side
    # Phases, not all the builds and then all the rest.
    assert min(measurements) < max(builds)


def test_two_workers_of_one_device_never_time_side_by_side(bench, authored, monkeypatch):
    """Each with a device of its own making: they have the directory of the locks in common, and no more."""
    lock_dir = bench.device.locks[0].path.parent
    other = dataclasses.replace(
        bench,
        device=find_device("cpu", num_cores=None, lock_dir=lock_dir),
        holding=Holding(),
        started=[],
        outcomes=[],
    )
    measurements = _spans(monkeypatch, "measure")
    traces = [authored["mm_tiled"]] * 6
    threads = [
        threading.Thread(target=each.measure, args=(authored["mm"], *traces)) for each in (bench, other)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [outcome.outcome for outcome in (*bench.outcomes, *other.outcomes)] == [Outcome.OK] * 12
    measurements.sort()
    assert len(measurements) == 12
    assert all(ended <= began for (_, ended), (began, _) in pairwise(measurements))


def test_a_layout_free_weight_is_measured_as_a_consumer_builds_it(bench, authored):
    """TVM's own rules pack the weight; the packing stays in the kernel, and the weights arrive plain."""
    outcomes = bench.measure(authored["dense"], *authored["dense_traces"])
    assert "layout_free_buffers" in authored["dense"]
    assert any("TransformLayout" in trace for trace in authored["dense_traces"])
    assert [outcome.outcome for outcome in outcomes] == [Outcome.OK] * len(outcomes)


def test_what_is_timed_of_a_layout_free_weight_is_what_compile_tir_gives(authored):
    """Module and code, not the time: two builds of one program differ by noise alone."""
    compared = authored["dense_compiled"]
    assert any(item["rewrites_layout"] for item in compared)
    for item in compared:
        assert item["same_module"]
        assert item["same_code"]


def test_the_best_falls_within_a_chunk_and_cuts_the_slow_off(bench, authored):
    _, slow = bench.measure(authored["mm"], authored["mm_tiled"], authored["mm_slow"], cut_off_ratio=1.5)
    assert slow.outcome == Outcome.CUT_OFF


def test_a_confirmation_interleaves_fresh_processes_of_both_sides(bench, authored):
    (outcome,) = bench.measure(
        authored["mm"],
        authored["mm_tiled"],
        purpose=Purpose.CONFIRM,
        incumbent=EMPTY_TRACE,
        confirm_processes=2,
    )
    assert outcome.outcome == Outcome.OK, outcome.error
    assert len(outcome.run_secs) == len(outcome.incumbent_run_secs) == 2
    assert max(outcome.run_secs) < min(outcome.incumbent_run_secs)
    assert len(bench.started) == 1


def test_a_confirmation_with_a_bad_incumbent_keeps_the_candidates_numbers(bench, authored):
    (outcome,) = bench.measure(
        authored["mm"],
        authored["mm_tiled"],
        purpose=Purpose.CONFIRM,
        incumbent=authored["mm_wrong"],
        confirm_processes=1,
    )
    assert (outcome.outcome, len(outcome.run_secs), outcome.incumbent_run_secs) == (Outcome.OK, 1, None)
    assert outcome.error.startswith("incumbent: wrong_output")


def test_a_drop_kills_the_running_child_and_publishes_nothing(bench, authored):
    place_reference(bench, authored["endless"], INT64)
    chunk = bench.chunk(authored["endless"], *[EMPTY_TRACE] * 3, purpose=Purpose.BASELINE)
    thread = threading.Thread(target=bench.measurer().run, args=(chunk,))
    thread.start()
    deadline = time.monotonic() + 10
    while not bench.started and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(1.0)
    assert len(bench.holding.held()) == 3
    began = time.monotonic()
    bench.holding.drop([Attempt(number, 1) for number in range(3)])
    thread.join(8)
    assert time.monotonic() - began < 5
    assert bench.outcomes == []
    assert bench.holding.held() == []


def test_a_drop_ends_a_reference_under_way(bench, authored):
    chunk = bench.chunk(authored["endless"], EMPTY_TRACE)
    thread = threading.Thread(target=bench.measurer().run, args=(chunk,))
    thread.start()
    time.sleep(1.0)
    bench.holding.drop_all()
    thread.join(5)
    assert not thread.is_alive()
    assert bench.outcomes == []


def test_a_module_that_is_not_what_its_hash_says_is_refused(bench, authored):
    chunk = dataclasses.replace(bench.chunk(authored["mm"], EMPTY_TRACE), module_sha256="0" * 64)
    with pytest.raises(MessageError, match="hash"):
        bench.measurer().run(chunk)


def _spans(monkeypatch, name):
    """When each call of this method of Shot began and ended; filled as they end."""
    wrapped, spans = getattr(Shot, name), []

    def timed(shot, *args, **kwargs):
        began = time.monotonic()
        wrapped(shot, *args, **kwargs)
        spans.append((began, time.monotonic()))

    monkeypatch.setattr(Shot, name, timed)
    return spans
