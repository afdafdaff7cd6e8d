"""Two jobs on the same workload share one search and measure nothing twice; names do not make a workload."""

import json
from collections import Counter

from tests.system.modules import body, module_json
from tests.system.service import Service, accounted


def test_two_jobs_share_one_search_and_measure_nothing_twice(service: Service) -> None:
    request = body("mm", max_trials=24, seed=11)
    first, second = service.submit(request), service.submit(request)
    ended = [service.wait_job(job["id"]) for job in (first, second)]
    assert [job["state"] for job in ended] == ["succeeded", "succeeded"]
    assert len({job["tasks"][0]["search_id"] for job in ended}) == 1
    assert all(accounted(job) and job["trials"]["submitted"] <= 24 for job in ended)
    trials = [trial for job in ended for trial in service.trials(job["id"]) if trial["purpose"] == "search"]
    assert max(Counter(trial["trace_hash"] for trial in trials).values()) == 1
    assert max(Counter(trial["program_hash"] for trial in trials).values()) == 1
    baselines = [t for job in ended for t in service.trials(job["id"]) if t["purpose"] == "baseline"]
    assert len(baselines) == 1


def test_functions_that_differ_only_in_names_are_one_workload(service: Service) -> None:
    text = module_json("mm")
    renamed = text.replace('"main"', '"matmul_of_another_team"')
    assert renamed != text
    jobs = [service.submit(body("mm", max_trials=2, seed=11))]
    jobs.append(service.submit({**body("mm", max_trials=2, seed=11), "module": json.loads(renamed)}))
    assert jobs[1]["tasks"][0]["name"] == "matmul_of_another_team"
    assert jobs[0]["tasks"][0]["workload"] == jobs[1]["tasks"][0]["workload"]
    assert jobs[0]["tasks"][0]["search_id"] == jobs[1]["tasks"][0]["search_id"]
    for job in jobs:
        service.wait_job(job["id"])


def test_a_resubmission_continues_from_what_is_known(service: Service) -> None:
    request = body("mm", max_trials=8, seed=12)
    first = service.wait_job(service.submit(request)["id"])
    again = service.submit(request)
    assert again["tasks"][0]["already_tuned"]
    second = service.wait_job(again["id"])
    known = {trial["trace_hash"] for trial in service.trials(first["id"]) if trial["purpose"] == "search"}
    new = {trial["trace_hash"] for trial in service.trials(second["id"]) if trial["purpose"] == "search"}
    assert known
    assert new
    assert known.isdisjoint(new)
    assert second["tasks"][0]["best_latency_secs"] <= first["tasks"][0]["best_latency_secs"]
