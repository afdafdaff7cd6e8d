"""The classroom's cases, each through the whole system."""

from typing import Any

import pytest

from tests.system.modules import body
from tests.system.service import Service, accounted

_CASES = {"mm": 12, "mm_relu": 12, "bmm_relu": 8, "broadcast_add": 6, "conv2d": 8, "linear0": 8}


@pytest.fixture(scope="module")
def jobs(service: Service) -> dict[str, str]:
    """All cases are submitted at once: they share the device."""
    return {
        name: service.submit(body(name, max_trials=trials, seed=31))["id"] for name, trials in _CASES.items()
    }


@pytest.mark.parametrize("name", list(_CASES))
def test_it_is_tuned_and_published(service: Service, jobs: dict[str, str], name: str) -> None:
    job: dict[str, Any] = service.wait_job(jobs[name], timeout_secs=240)
    assert job["state"] == "succeeded", job
    assert accounted(job)
    assert job["outcomes"].get("wrong_output", 0) == 0
    task = job["tasks"][0]
    assert task["record_id"] is not None
    # A kernel of a microsecond may not become faster; one of a millisecond must.
    assert task["untuned_latency_secs"] < 1e-4 or task["speedup"] > 1.5


def test_mm_in_the_hand_written_space_runs_dry_and_succeeds(service: Service) -> None:
    import tvm

    from examples.classroom import mm_space, modules

    schedule = tvm.s_tir.Schedule(modules()["mm"])
    mm_space(schedule)
    import tilefarm.space

    traces = [tilefarm.space.trace_json(schedule)]
    spaces = {"main": {"traces": traces, "postprocs": [], "mutators": {}}}
    job = service.wait_job(service.submit(body("mm", max_trials=64, spaces=spaces))["id"])
    assert job["state"] == "succeeded", job
    task = job["tasks"][0]
    assert task["exhausted"]
    # 128 has eight divisors: the space holds no more programs than splits of j into two factors.
    assert 2 <= job["trials"]["submitted"] <= 8
    assert job["trials"]["done"] == job["trials"]["submitted"]
