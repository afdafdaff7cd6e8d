"""Where a kernel's threads run: each on a core of its own, only on those that measure, and undisturbed."""

import dataclasses
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from db.states import Outcome
from tests.workers.conftest import EMPTY_TRACE, Bench
from workers.inputs import Parameter
from workers.reference import reference_name
from workers.reference_files import write_reference

CPUS = tuple(sorted(os.sched_getaffinity(0)))


def _may_be_undisturbed() -> bool:
    code = "import os; os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(len(CPUS) < 2, reason="one core leaves no choice")
@pytest.mark.parametrize(
    ("device", "cores", "expected"),
    [
        (CPUS[:2], 2, CPUS[:2]),
        (CPUS[1::-1], 2, CPUS[1::-1]),
        (CPUS[1:2], 1, CPUS[1:2] * 2),
        (CPUS[:2], 1, CPUS[1:2] * 2),
    ],
    ids=["both cores", "the other way round", "a worker of core 1", "the core that does not build"],
)
def test_each_thread_of_a_kernel_has_the_core_that_was_meant(
    bench: Bench, authored: dict[str, Any], device: tuple[int, ...], cores: int, expected: tuple[int, ...]
) -> None:
    """The kernel's output is where its two tasks ran; it is ok where they ran as they should, each time."""
    bench.device = dataclasses.replace(bench.device, cpus=device)
    bench.detected = dataclasses.replace(bench.detected, target={**bench.detected.target, "num-cores": cores})
    _place_reference(bench, authored["places"], expected)
    outcomes = bench.measure(authored["places"], *[EMPTY_TRACE] * 3)
    assert [(outcome.outcome, outcome.error) for outcome in outcomes] == [(Outcome.OK, None)] * 3


def test_a_device_says_whether_it_times_in_real_time(bench: Bench) -> None:
    before = os.sched_getscheduler(0)
    assert bench.device.facts["real_time"] is _may_be_undisturbed()
    assert os.sched_getscheduler(0) == before


@pytest.mark.skipif(not _may_be_undisturbed(), reason="this user may not")
def test_nobody_takes_the_cores_from_a_kernel_that_is_timed(bench: Bench, authored: dict[str, Any]) -> None:
    policy = os.SCHED_RR | os.SCHED_RESET_ON_FORK
    _place_reference(bench, authored["rights"], (policy, policy))
    (outcome,) = bench.measure(authored["rights"], EMPTY_TRACE)
    assert (outcome.outcome, outcome.error) == (Outcome.OK, None)


def _place_reference(bench: Bench, module: str, expected: tuple[int, ...]) -> None:
    chunk = bench.chunk(module, EMPTY_TRACE)
    write_reference(
        bench.directory / "references" / reference_name(chunk),
        parameters=[Parameter(name="A", shape=(2,), dtype="int32")],
        inputs=[np.full(2, -1, dtype=np.int32)],
        outputs={0: np.array(expected, dtype=np.int32)},
        reduction_length=1,
    )
