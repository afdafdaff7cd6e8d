"""Where a kernel's threads run: each on a core of its own, and only on those that measure."""

import dataclasses
import os
from typing import Any

import numpy as np
import pytest

from db.states import Outcome
from tests.workers.conftest import EMPTY_TRACE, Bench
from workers.inputs import Parameter
from workers.reference import reference_name
from workers.reference_files import write_reference

CPUS = tuple(sorted(os.sched_getaffinity(0)))


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
    chunk = bench.chunk(authored["places"], EMPTY_TRACE)
    write_reference(
        bench.directory / "references" / reference_name(chunk),
        parameters=[Parameter(name="A", shape=(2,), dtype="int32")],
        inputs=[np.full(2, -1, dtype=np.int32)],
        outputs={0: np.array(expected, dtype=np.int32)},
        reduction_length=1,
    )
    outcomes = bench.measure(authored["places"], *[EMPTY_TRACE] * 3)
    assert [(outcome.outcome, outcome.error) for outcome in outcomes] == [(Outcome.OK, None)] * 3
