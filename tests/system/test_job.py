"""The main job: a module goes in over REST, a compiler gets the tuned schedule by stock `compile_tir`."""

import json
from typing import Any

import httpx
import numpy as np
import pytest

from tests.system.modules import body
from tests.system.service import Service, accounted
from tuner.space.marks import STRUCTURE


def test_a_job_succeeds_with_every_trial_accounted_for(tuned_mm_relu: dict[str, Any]) -> None:
    job = tuned_mm_relu
    assert job["state"] == "succeeded", job["error"]
    assert accounted(job)
    assert 0 < job["trials"]["submitted"] <= job["max_trials"] == 32
    assert job["trials"]["queued"] == job["trials"]["dispatched"] == 0
    assert job["outcomes"]["ok"] >= 10


def test_the_tuned_module_is_faster_than_the_untuned(tuned_mm_relu: dict[str, Any]) -> None:
    task = tuned_mm_relu["tasks"][0]
    assert task["best_latency_secs"] < task["untuned_latency_secs"]
    assert tuned_mm_relu["speedup"] == pytest.approx(
        task["untuned_latency_secs"] / task["best_latency_secs"], rel=1e-3
    )
    assert task["gflops"] == pytest.approx(task["flops"] / task["best_latency_secs"] / 1e9, rel=1e-3)


def test_each_trial_says_what_became_of_it(service: Service, tuned_mm_relu: dict[str, Any]) -> None:
    trials = [trial for trial in service.trials(tuned_mm_relu["id"]) if trial["purpose"] == "search"]
    assert len(trials) == tuned_mm_relu["trials"]["submitted"]
    for trial in trials:
        assert trial["state"] == "done"
        assert trial["worker_id"]
        assert trial["device_class"]
        assert (trial["outcome"] == "ok") <= (min(trial["run_secs"] or [0]) > 0)
        assert trial["outcome"] in {"ok", "cut_off"} or trial["error"]
    assert any(trial["predicted_score"] is not None for trial in trials), "the cost model scored nobody"


def test_plans_of_ours_are_measured(service: Service, tuned_mm_relu: dict[str, Any]) -> None:
    """Stock's sketches are in the space as well (tests/tuner/test_rules.py), and get few trials."""
    trials = [trial for trial in service.trials(tuned_mm_relu["id"]) if trial["outcome"] == "ok"]
    traces = [json.dumps(service.get(f"/v1/trials/{trial['id']}")["trace"]) for trial in trials]
    assert any(STRUCTURE in trace for trace in traces)


def test_a_record_is_published_only_after_a_second_measurement(
    service: Service, tuned_mm_relu: dict[str, Any]
) -> None:
    record = service.get(f"/v1/records/{tuned_mm_relu['tasks'][0]['record_id']}")
    jobs = service.get("/v1/jobs", page_size=100)["jobs"]
    # The record may be one that another job on this workload found.
    trials = [t for job in jobs for t in service.trials(job["id"]) if t["trace_hash"] == record["trace_hash"]]
    assert {trial["purpose"] for trial in trials if trial["outcome"] == "ok"} >= {"search", "confirm"}
    assert record["latency_secs"] == pytest.approx(np.median(record["run_secs"]), rel=1e-6)


def test_the_best_is_shown_as_trace_and_as_python(service: Service, tuned_mm_relu: dict[str, Any]) -> None:
    best = service.get(f"/v1/tasks/{tuned_mm_relu['tasks'][0]['id']}/record")
    assert json.loads(json.dumps(best["trace"]))[0]
    assert "sch.get_sblock" in best["trace_python"]


def test_stock_compile_tir_gets_the_schedule_and_right_numbers(
    service: Service, tuned_mm_relu: dict[str, Any]
) -> None:
    assert tuned_mm_relu["state"] == "succeeded"
    import tvm
    from tvm.s_tir.meta_schedule.tir_integration import compile_tir

    import tilefarm
    from examples.classroom import modules

    (key,) = service.get("/v1/signing-keys")["keys"]
    assert key["records"] > 0
    db = tilefarm.connect(service.url, service.token, timeout_secs=20, public_key=key["public_key"])
    target = db.target("local")
    schedule = compile_tir(db, modules()["mm_relu"], target)
    assert schedule is not None
    a, b = (np.random.default_rng(seed).random((128, 128), dtype="float32") for seed in (0, 1))
    out = tvm.runtime.tensor(np.zeros((128, 128), "float32"))
    tvm.compile(schedule.mod, target)["main"](tvm.runtime.tensor(a), tvm.runtime.tensor(b), out)
    np.testing.assert_allclose(out.numpy(), np.maximum(a @ b, 0), rtol=1e-4)


@pytest.mark.parametrize("change", [{"num-cores": 1}, {"mcpu": "x86-64-v3"}])
def test_a_lookup_for_another_target_is_a_miss(
    service: Service, tuned_mm_relu: dict[str, Any], change: dict[str, Any]
) -> None:
    shash = tuned_mm_relu["tasks"][0]["workload"]
    tvm_version = service.get("/v1/workers")["workers"][0]["tvm_version"]
    request = {"target": service.target, "tvm_version": tvm_version, "workloads": [shash]}
    assert shash in service.post("/v1/lookup", request).json()["records"]
    other = service.post("/v1/lookup", {**request, "target": {**service.target, **change}}).json()
    assert other["records"] == {}
    assert [miss["shash"] for miss in other["missing"]] == [shash]


def test_events_end_with_a_terminal_event(service: Service, tuned_mm_relu: dict[str, Any]) -> None:
    with service.http as http, http.stream("GET", f"/v1/jobs/{tuned_mm_relu['id']}/events") as stream:
        lines = [line for line in stream.iter_lines() if line.startswith("event:")]
    names = [line.removeprefix("event:").strip() for line in lines]
    assert names[-1] == "end"
    assert "job" in names


def test_an_idempotent_retry_makes_no_second_job(service: Service, tuned_mm_relu: dict[str, Any]) -> None:
    assert tuned_mm_relu["state"] == "succeeded"
    request = {**body("mm_relu", max_trials=4), "name": "retried"}
    first = service.post_with_key(request, "build-7").json()
    again = service.post_with_key(request, "build-7")
    assert again.json()["id"] == first["id"]
    other = service.post_with_key({**request, "max_trials": 5}, "build-7")
    assert other.status_code == 422
    service.wait_job(first["id"])
    names = [job["name"] for job in service.get("/v1/jobs", page_size=100)["jobs"]]
    assert names.count("retried") == 1


def test_without_a_token_nothing_is_answered(service: Service) -> None:
    assert httpx.get(f"{service.url}/v1/jobs").status_code == 401
    assert httpx.post(f"{service.url}/v1/jobs", json={}).status_code == 401
