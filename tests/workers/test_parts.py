"""The small parts: settings, devices and their locks, what is held, the reference cache, repeats."""

import fcntl
import os
import threading
import time

import numpy as np
import pytest

from db.states import Outcome
from tests.workers.conftest import EMPTY_TRACE
from workers.cache_flush import flusher
from workers.device import find_device
from workers.errors import DeviceError
from workers.holding import Attempt, Holding
from workers.messages import MeasurePolicy
from workers.reference import ReferenceCache
from workers.reference_files import read_reference
from workers.settings import WorkerSettings
from workers.shot import read_answer
from workers.timing import cut_off, relative_error, repeats


def never() -> bool:
    return False


class FakeChild:
    def __init__(self):
        self.kills = 0

    def kill(self):
        self.kills += 1


def test_settings_come_from_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("TILEFARM_URL", "http://farm:1234")
    monkeypatch.setenv("TILEFARM_TOKEN", "secret")
    monkeypatch.setenv("TILEFARM_PROFILES", "local, x86-avx512 ,")
    monkeypatch.setenv("TILEFARM_WORK_DIR", str(tmp_path))
    settings = WorkerSettings()
    assert settings.profiles == ("local", "x86-avx512")
    assert settings.token.get_secret_value() == "secret"
    assert "secret" not in repr(settings)
    assert str(settings.url) == "http://farm:1234/"
    assert settings.work_dir == tmp_path


def test_more_cores_than_there_are_is_refused(tmp_path):
    with pytest.raises(DeviceError, match="999 cores"):
        find_device("cpu", num_cores=999, lock_dir=tmp_path)


def test_a_device_names_its_class_and_cores(tmp_path):
    device = find_device("cpu", num_cores=1, lock_dir=tmp_path)
    assert device.device_class.endswith(" 1c")
    assert device.cpus == (min(os.sched_getaffinity(0)),)
    assert device.memory_bytes > 1 << 28


def test_the_device_is_exclusive_on_its_host(tmp_path):
    device = find_device("cpu", num_cores=None, lock_dir=tmp_path / "shared")
    held_fd = os.open(device.locks[0].path, os.O_RDONLY)
    with device.exclusive(given_up=never), pytest.raises(BlockingIOError):
        fcntl.flock(held_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    fcntl.flock(held_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    entered = threading.Event()

    def enter():
        with device.exclusive(given_up=never):
            entered.set()

    thread = threading.Thread(target=enter)
    thread.start()
    assert not entered.wait(0.1)
    os.close(held_fd)
    assert entered.wait(5)
    thread.join()


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core makes one device")
def test_devices_that_share_a_core_take_turns_and_others_do_not(tmp_path):
    """A worker of one core beside a worker of all: each would slow the other down."""
    allowed = os.sched_getaffinity(0)
    of_all = find_device("cpu", num_cores=None, lock_dir=tmp_path)
    of_first = find_device("cpu", num_cores=1, lock_dir=tmp_path)
    try:
        os.sched_setaffinity(0, sorted(allowed)[1:])
        of_others = find_device("cpu", num_cores=None, lock_dir=tmp_path)
    finally:
        os.sched_setaffinity(0, allowed)
    entered = threading.Event()

    def enter():
        with of_all.exclusive(given_up=never):
            entered.set()

    with of_first.exclusive(given_up=never), of_others.exclusive(given_up=never):
        thread = threading.Thread(target=enter)
        thread.start()
        assert not entered.wait(0.1)
    assert entered.wait(5)
    thread.join()


def test_a_lock_directory_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DeviceError, match="file/locks"):
        find_device("cpu", num_cores=None, lock_dir=tmp_path / "file" / "locks")


def test_a_drop_kills_only_what_works_for_nobody_else():
    holding, one, both = Holding(), FakeChild(), FakeChild()
    first, second = Attempt(1, 1), Attempt(2, 1)
    holding.take([first, second])
    holding.attach(one, [first])
    holding.attach(both, [first, second])
    holding.drop([first, Attempt(9, 9)])
    assert (one.kills, both.kills) == (1, 0)
    assert holding.held() == [second]
    holding.detach(one)
    holding.drop([second])
    assert (one.kills, both.kills) == (1, 1)


def test_another_attempt_of_a_dropped_trial_is_not_dropped():
    holding = Holding()
    holding.take([Attempt(1, 2)])
    holding.drop([Attempt(1, 1)])
    assert not holding.dropped(Attempt(1, 2))


def test_a_child_that_starts_after_the_drop_is_killed_at_once():
    holding, child = Holding(), FakeChild()
    holding.take([Attempt(1, 1)])
    holding.drop([Attempt(1, 1)])
    holding.attach(child, [Attempt(1, 1)])
    assert child.kills == 1


def test_what_is_taken_after_the_end_is_dropped():
    holding = Holding()
    holding.drop_all()
    holding.take([Attempt(1, 1)])
    assert holding.dropped(Attempt(1, 1))
    assert holding.held() == []


def test_a_reference_is_computed_once_and_the_oldest_makes_room(bench, authored):
    cache = ReferenceCache(
        server=bench.server, directory=bench.directory / "r", linker=None, timeout_secs=20, max_bytes=60_000
    )
    places = []
    for name in ("scale", "log", "half"):
        chunk, attempts = bench.chunk(authored[name], EMPTY_TRACE), [Attempt(0, 1)]
        bench.holding.take(attempts)
        with cache.get(chunk, authored[name], holding=bench.holding, attempts=attempts) as place:
            places.append(place)
        before = (places[-1] / "output_1.bin").stat().st_mtime_ns
        with cache.get(chunk, authored[name], holding=bench.holding, attempts=attempts):
            pass
        assert (places[-1] / "output_1.bin").stat().st_mtime_ns == before
        time.sleep(0.02)
    assert [place.exists() for place in places] == [False, True, True]


@pytest.mark.parametrize(
    ("name", "text"), [("meta.json", b""), ("meta.json", b'{"parameters": 1}'), ("output_1.bin", b"")]
)
def test_a_reference_that_lost_its_contents_is_computed_again(bench, authored, name, text):
    """A host that lost its power keeps names of files, not always what was in them."""
    (before,) = bench.measure(authored["scale"], EMPTY_TRACE)
    (place,) = (bench.directory / "references").iterdir()
    (place / name).write_bytes(text)
    (after,) = bench.measure(authored["scale"], EMPTY_TRACE)
    assert (before.outcome, after.outcome) == (Outcome.OK, Outcome.OK), after.error
    assert read_reference(place).outputs()[1].size
    assert list((bench.directory / "references").iterdir()) == [place]


def test_a_reference_with_negative_numbers_under_a_logarithm_takes_positive_ones(bench, authored):
    bench.measure(authored["log"], EMPTY_TRACE)
    (place,) = (bench.directory / "references").iterdir()
    reference = read_reference(place)
    assert reference.inputs()[0].min() >= 0.5
    assert reference.output_indices == (1,)


def test_an_in_place_parameter_is_an_output(bench, authored):
    bench.measure(authored["in_place"], EMPTY_TRACE)
    (place,) = (bench.directory / "references").iterdir()
    reference = read_reference(place)
    first, second = reference.inputs()
    assert reference.output_indices == (0,)
    assert reference.outputs()[0] == pytest.approx(first * 3 + second, abs=1e-6)


def test_a_long_sum_in_the_safe_order_is_right_and_quick(bench, authored):
    began = time.monotonic()
    outcomes = bench.measure(authored["mm_big"], authored["mm_big_tiled"], run_timeout_secs=5.0)
    assert time.monotonic() - began < 8
    assert outcomes[0].error is None
    (place,) = (bench.directory / "references").iterdir()
    reference = read_reference(place)
    a, b, _ = reference.inputs()
    assert reference.reduction_length == 1024
    assert np.allclose(reference.outputs()[2], a @ b, atol=1e-3)


def test_repeats_end_when_the_mean_is_known():
    numbers = iter([1.0e-4, 1.0e-4, 1.0e-4, 5.0])
    policy = MeasurePolicy(min_repeat=3, min_repeat_ms=0.1)
    run_secs = repeats(lambda: None, lambda _: next(numbers), estimate_secs=1e-4, policy=policy)
    assert run_secs == [1e-4] * 3


def test_noisy_repeats_go_on_to_the_most_allowed():
    numbers = iter([1e-4, 3e-4] * 10)
    policy = MeasurePolicy(min_repeat=2, max_repeat=7)
    run_secs = repeats(lambda: None, lambda _: next(numbers), estimate_secs=1e-4, policy=policy)
    assert len(run_secs) == 7


def test_a_repeat_lasts_as_long_as_the_policy_asks():
    asked = []

    def evaluate(number):
        asked.append(number)
        return 1e-5

    repeats(lambda: None, evaluate, estimate_secs=1e-5, policy=MeasurePolicy(min_repeat_ms=2.0))
    assert set(asked) == {200}


def test_a_slow_call_is_repeated_no_longer_than_the_policy_says() -> None:
    policy = MeasurePolicy(min_repeat=3, max_repeat=20, max_measure_ms=40.0, target_relative_error=1e-9)
    run_secs = repeats(lambda: time.sleep(0.02), lambda _: 0.0, estimate_secs=0.02, policy=policy)
    assert len(run_secs) == 3


def test_what_is_clearly_slower_than_the_best_is_repeated_twice() -> None:
    numbers = iter([3.1e-4, 2.9e-4, 3.0e-4, 3.05e-4])
    policy = MeasurePolicy(target_relative_error=1e-9, max_repeat=4)
    run_secs = repeats(
        lambda: None, lambda _: next(numbers), estimate_secs=3e-4, policy=policy, best_secs=1e-4
    )
    assert run_secs == [3.1e-4, 2.9e-4]


@pytest.mark.parametrize(("latency", "most"), [(1.05e-4, 10), (1.5e-4, 3)])
def test_what_is_further_from_the_best_may_be_known_less_well(latency: float, most: int) -> None:
    """The repeats differ by a tenth: too much near the best, enough half as much again above it."""
    numbers = iter([latency, 1.1 * latency] * 5)
    policy = MeasurePolicy(target_relative_error=0.01, max_repeat=10)
    run_secs = repeats(
        lambda: None, lambda _: next(numbers), estimate_secs=latency, policy=policy, best_secs=1e-4
    )
    assert len(run_secs) == most


def test_a_repeat_of_one_call_counts_the_estimate_and_a_very_long_one_is_enough() -> None:
    policy = MeasurePolicy(min_repeat=3, max_measure_ms=40.0, target_relative_error=1e-9)
    called: list[int] = []
    run_secs = repeats(
        lambda: called.append(1), lambda _: 0.0, estimate_secs=0.05, policy=policy, best_secs=0.05
    )
    assert (run_secs[0], len(run_secs), len(called)) == (0.05, 3, 2)
    assert repeats(lambda: called.append(1), lambda _: 0.0, estimate_secs=0.13, policy=policy) == [0.13]
    assert len(called) == 2


def test_slow_calls_stop_before_the_time_limit():
    policy = MeasurePolicy(min_repeat=5, run_timeout_secs=0.2)
    run_secs = repeats(lambda: time.sleep(0.06), lambda _: 0.0, estimate_secs=0.06, policy=policy)
    assert 1 <= len(run_secs) <= 2


def test_a_single_number_has_no_known_error():
    assert relative_error([1.0]) == float("inf")
    assert relative_error([1.0, 1.0]) == 0.0


def test_without_a_best_there_is_no_cut_off():
    assert cut_off(MeasurePolicy(), None) is None
    limit = cut_off(MeasurePolicy(cut_off_ratio=6.0), 1e-2)
    assert (limit.limit_secs, limit.alarm_secs) == pytest.approx((0.06, 0.09))
    assert cut_off(MeasurePolicy(), 1e-6).alarm_secs == 20e-3
    assert cut_off(MeasurePolicy(), 1e-6).limit_secs == 0.2e-3
    lower = MeasurePolicy(least_cut_off_ms=0.01, least_alarm_ms=1.0)
    assert (cut_off(lower, 1e-6).limit_secs, cut_off(lower, 1e-6).alarm_secs) == (1e-5, 1e-3)


@pytest.mark.parametrize(
    "change",
    [
        {"outcome": "worker_lost"},
        {"outcome": None},
        {"run_secs": [float("nan")]},
        {"run_secs": [-1.0]},
        {"run_secs": 3},
        {"run_secs": [10**400]},
        {"stage_secs": {"build": 10**400}},
        {"outcome": ["ok"]},
        {"stage_secs": {"build": "long"}},
        {"stage_secs": None},
    ],
)
def test_a_childs_answer_is_not_believed_blindly(change):
    answer = {"outcome": "ok", "run_secs": [1.0], "error": None, "stage_secs": {"build": 1.0, "own": 2.0}}
    assert read_answer(answer).stage_secs == {"build": 1.0}
    result = read_answer({**answer, **change})
    assert (result.outcome, result.run_secs) == (Outcome.RUN_ERROR, None)
    assert "does not read" in result.error


def test_where_lines_cannot_be_flushed_every_core_sweeps_its_caches(monkeypatch):
    swept = []
    allowed = os.sched_getaffinity(0)
    set_affinity = os.sched_setaffinity

    def note(pid, cpus):
        swept.append(set(cpus))
        set_affinity(pid, cpus)

    monkeypatch.setattr(os, "sched_setaffinity", note)
    flusher([], target=None, cpus=sorted(allowed), x86=False)()
    assert swept == [*({cpu} for cpu in sorted(allowed)), allowed]
    assert os.sched_getaffinity(0) == allowed


def test_a_flush_comes_before_every_timed_call_and_no_evaluator_takes_its_place():
    told = []
    policy = MeasurePolicy(min_repeat=4, max_repeat=4, flush_cache=True)
    repeats(
        lambda: told.append("call"),
        lambda _: told.append("evaluator") or 1.0,
        estimate_secs=1e-6,
        policy=policy,
        flush=lambda: told.append("flush"),
    )
    assert told == ["flush", "call"] * 4
