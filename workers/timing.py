"""Inside a child: how long one call takes. It knows policies and clocks, not where the kernel came from."""

import math
import os
import signal
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from tuner.tvm_light import load_tvm
from workers.messages import MeasurePolicy

#: Below this the evaluator inside TVM counts, whose calls cost nothing; above it Python's clock does as well.
_SHORT_CALL_SECS = 1e-3
#: A probe beyond the limit is taken again so often, unless they take long: a short call may have met somebody
#: else's time slice.
_MOST_PROBES, _PROBES_SECS = 4, 5e-3
_MOST_CALLS = 100_000
#: The first call, cold, may take so many times as long as a warm one; only beyond that its candidate is slow.
_COLD_RATIO = 1.5
#: Repeats end when they have taken this share of the run's time limit.
_BUDGET_SHARE = 0.5
#: Repeats that together took so many times `max_measure_ms` are enough, however few: their calls are so long
#: that they hold many of a core's slow and fast moments.
_LONG_RATIO = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CutOff:
    """Slower than `limit_secs` is not worth its time; a run that takes `alarm_secs` is stopped under way."""

    limit_secs: float
    alarm_secs: float


def cut_off(policy: MeasurePolicy, best_latency_secs: float | None) -> CutOff | None:
    """None while nothing is known of the search."""
    if best_latency_secs is None:
        return None
    limit_secs = max(policy.cut_off_ratio * best_latency_secs, policy.least_cut_off_ms / 1e3)
    alarm_secs = max(_COLD_RATIO * limit_secs, policy.least_alarm_ms / 1e3)
    return CutOff(limit_secs=limit_secs, alarm_secs=alarm_secs)


def timed_call(call: Callable[[], None], limit: CutOff | None) -> float:
    """Seconds of one call. Beyond the limit SIGALRM ends this process; its parent reads that as a cut-off."""
    if limit is not None:
        signal.setitimer(signal.ITIMER_REAL, limit.alarm_secs)
    began = time.perf_counter()
    call()
    took = time.perf_counter() - began
    if limit is not None:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
    return took


def probe(call: Callable[[], None], limit: CutOff | None, *, cold_secs: float = math.inf) -> float:
    """Seconds of the fastest of a few warm calls; of the first, where that is within the limit.

    `cold_secs`: of the call before; where that is within the limit, one is enough.
    """
    fastest = spent_secs = timed_call(call, limit)
    for _ in range(_MOST_PROBES - 1):
        if limit is None or min(fastest, cold_secs) <= limit.limit_secs or spent_secs > _PROBES_SECS:
            break
        again_secs = timed_call(call, limit)
        spent_secs += again_secs
        fastest = min(fastest, again_secs)
    return fastest


def repeats(
    call: Callable[[], None],
    evaluate: Callable[[int], float],
    *,
    estimate_secs: float,
    policy: MeasurePolicy,
    best_secs: float | None = None,
    flush: Callable[[], None] | None = None,
    by_evaluator: bool = False,
) -> list[float]:
    """Seconds per call, one number for each repeat, until their mean is known well enough.

    `evaluate(number)` is the mean over `number` calls by TVM's own evaluator. `flush`, where the policy asks
    for it, is called before every timed call. `estimate_secs` is of one warm call, and where a repeat is one
    call it is the first of them, unless all times are to be `by_evaluator`. Repeats end when the relative
    standard error is below the policy's target, which is looser for what is slower than `best_secs`; when
    they have taken `max_measure_ms` (the least number of them too, where they are very long), when the
    candidate is clearly slower, at `max_repeat`, or when the time limit comes near; there is always one.
    """
    number = 1 if flush is not None else _calls_per_repeat(estimate_secs, policy)
    budget_secs = _BUDGET_SHARE * policy.run_timeout_secs
    run_secs: list[float] = []
    began = time.perf_counter()
    counts = by_evaluator or (flush is None and estimate_secs < _SHORT_CALL_SECS)
    if flush is None and number == 1 and not counts:
        # The estimate was such a repeat.
        run_secs, began = [estimate_secs], began - estimate_secs
    while len(run_secs) < policy.max_repeat:
        if run_secs:
            spent_secs = time.perf_counter() - began
            if _well_known(run_secs, best_secs, policy) or _clearly_slower(run_secs, best_secs, policy):
                break
            if _took_long(run_secs, spent_secs, policy):
                break
            if spent_secs + max(run_secs) * number > budget_secs:
                break
        if flush is not None:
            flush()
        if counts:
            run_secs.append(evaluate(number))
        else:
            run_secs.append(_mean_of_calls(call, number))
    return run_secs


def _well_known(run_secs: list[float], best_secs: float | None, policy: MeasurePolicy) -> bool:
    if len(run_secs) < policy.min_repeat:
        return False
    distance = 0.0 if best_secs is None else min(run_secs) / best_secs - 1.0
    error = max(policy.target_relative_error, policy.distance_error_share * distance)
    return relative_error(run_secs) < error


def _took_long(run_secs: list[float], spent_secs: float, policy: MeasurePolicy) -> bool:
    ratio = 1.0 if len(run_secs) >= policy.min_repeat else _LONG_RATIO
    return spent_secs * 1e3 > ratio * policy.max_measure_ms


def _clearly_slower(run_secs: list[float], best_secs: float | None, policy: MeasurePolicy) -> bool:
    if best_secs is None or len(run_secs) < 2:
        return False
    return min(run_secs) > policy.clearly_slower_ratio * best_secs


def relative_error(run_secs: list[float]) -> float:
    """Standard error of the mean over the mean; infinite for a single number."""
    if len(run_secs) < 2:
        return math.inf
    return statistics.stdev(run_secs) / math.sqrt(len(run_secs)) / statistics.fmean(run_secs)


def take_cores(cpus: Sequence[int]) -> None:
    """From now on this process, one thread so far, computes on `cpus`, each of TVM's threads on its own.

    The calling thread takes the first. TVM itself counts cores from 0 on, and leaves the calling thread free
    to run where another is bound: it then shares that core for seconds, and the kernel takes twice its time.
    """
    os.environ["TVM_BIND_THREADS"] = "0"
    os.sched_setaffinity(0, cpus)
    before = _threads()
    start_thread_pool(len(cpus))
    workers = sorted(_threads() - before)
    for thread, cpu in zip(workers, cpus[1:], strict=True):
        os.sched_setaffinity(thread, {cpu})
    os.sched_setaffinity(0, cpus[:1])
    _undisturbed([0, *workers])


def _undisturbed(threads: Sequence[int]) -> None:
    """Let nothing else on the host take the cores from these threads, where the system allows it.

    TVM's threads yield while they wait for each other; a search, or a build, that is there to take over keeps
    the core for milliseconds, whatever its nice value says in a session of its own. The kernel leaves a
    twentieth of each second to others in any case. What a kernel forks gets no such right.
    """
    policy = os.SCHED_RR | os.SCHED_RESET_ON_FORK
    with suppress(PermissionError):
        for thread in threads:
            os.sched_setscheduler(thread, policy, os.sched_param(1))


def _threads() -> set[int]:
    return {int(name) for name in os.listdir("/proc/self/task")}  # noqa: PTH208 - names are all we need


def start_thread_pool(num_cores: int) -> None:
    """TVM's worker threads run before the first timed call, or a good parallel kernel would look bad."""
    # Read by the pool when it starts: its own guess halves the cores.
    os.environ["TVM_NUM_THREADS"] = str(num_cores)
    configure: Any = load_tvm().get_global_func("runtime.config_threadpool")
    configure(1, num_cores)


def _calls_per_repeat(estimate_secs: float, policy: MeasurePolicy) -> int:
    wanted = math.ceil(policy.min_repeat_ms / 1e3 / max(estimate_secs, 1e-9))
    return min(max(policy.number, wanted), _MOST_CALLS)


def _mean_of_calls(call: Callable[[], None], number: int) -> float:
    began = time.perf_counter()
    for _ in range(number):
        call()
    return (time.perf_counter() - began) / number
