"""Which task of a job gets the next batch: the gradient rule of TVM's task scheduler, as a pure function.

The rule is Ansor's (OSDI 2020, section 6.2) as in TVM
(src/s_tir/meta_schedule/task_scheduler/gradient_based.cc): expected gain per round = weight x (alpha x recent
gain + (1 - alpha) x latency / rounds). It counts rounds that are still out, so that several batches in flight
spread over tasks. It charges nothing and stops nothing: budgets and plateaus are decided on rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass

#: Share of the observed gain against the optimistic bound (TVM's default).
ALPHA = 0.2
#: Rounds over which the observed gain is taken (TVM's default).
WINDOW_ROUNDS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskProgress:
    """A task's part of the job, as its rows tell it."""

    task_id: int
    #: How often the task's function runs in the model.
    weight: float
    flops: float
    #: Best latency in seconds after each finished round; None while nothing ran to its end.
    latencies: tuple[float | None, ...] = ()
    #: Rounds whose trials are queued or on a device.
    rounds_out: int = 0
    #: Trials charged to the task, and its own cap (None: only the job's).
    trials: int = 0
    max_trials: int | None = None
    #: Exhausted, failed or cancelled: it gets nothing more.
    done: bool = False

    @property
    def rounds(self) -> int:
        return len(self.latencies) + self.rounds_out

    @property
    def open(self) -> bool:
        return not self.done and (self.max_trials is None or self.trials < self.max_trials)


def next_task(tasks: Sequence[TaskProgress]) -> int | None:
    """The task id that gets the next batch; None where every task is done or at its cap.

    Warm-up first: each task gets one round, the largest weight x FLOPs first. Ties go to the task with fewer
    rounds, then to the smaller id.
    """
    candidates = [task for task in tasks if task.open]
    if not candidates:
        return None
    cold = [task for task in candidates if task.rounds == 0]
    if cold:
        return min(cold, key=lambda task: (-task.weight * task.flops, task.task_id)).task_id
    return min(candidates, key=lambda task: (-expected_gain_secs(task), task.rounds, task.task_id)).task_id


def expected_gain_secs(task: TaskProgress) -> float:
    """Weighted seconds that one more round is expected to win.

    A task that has never run to its end promises nothing: it waits until no other task promises anything,
    unless its first rounds are still out (then nothing is known, and it waits for them).
    """
    known = [latency for latency in task.latencies if latency is not None]
    if not known:
        return 0.0
    best = known[-1]
    early = len(known) <= WINDOW_ROUNDS  # too early to have seen a plateau
    recent = best if early else (known[-1 - WINDOW_ROUNDS] - best) / WINDOW_ROUNDS
    return task.weight * (ALPHA * recent + (1 - ALPHA) * best / task.rounds)
