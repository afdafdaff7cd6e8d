"""Workers: join, heartbeat as control channel, ages by database time, drain."""

from sqlalchemy import update

from db.clock import utc_now
from db.farm_tables import WorkerRow
from db.fleet import read_fleet
from db.session import transaction
from db.states import WorkerRole
from tests.api.conftest import TARGET, problem
from tests.api.rows import add_trials, set_job, set_search
from workers.queues import work_queue

_AVX512 = ["avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl"]


def beat(api, worker_id, holding=()):
    body = {"holding": [list(held) for held in holding], "stage_secs": {"build": 1.0}}
    return api("POST", f"/v1/workers/{worker_id}:heartbeat", as_="worker", json=body)


def age(engine, secs) -> None:
    with transaction(engine) as session:
        session.execute(update(WorkerRow).values(heartbeat_at=utc_now(offset_secs=-secs)))


def health(api) -> list[str]:
    return [worker["health"] for worker in api("GET", "/v1/workers").json()["workers"]]


def test_a_worker_joins_with_its_target_and_profiles(api):
    joined = api.join(facts={"cpu": "test"}).json()
    assert joined["target"] == TARGET
    assert joined["queues"] == [work_queue(joined["target_key"], WorkerRole.BOTH)]
    assert joined["heartbeat_secs"] == 2.0
    (worker,) = api("GET", "/v1/workers").json()["workers"]
    assert (worker["id"], worker["health"], worker["facts"]) == (
        joined["worker_id"],
        "alive",
        {"cpu": "test"},
    )
    assert api("GET", "/v1/targets/local").json()["workers_alive"] == 1
    assert "no_worker" not in [w["code"] for w in api.submit(target="local").json()["warnings"]]


def test_a_join_under_the_same_name_replaces_the_predecessor(api):
    first, second = api.join().json()["worker_id"], api.join().json()["worker_id"]
    assert [worker["id"] for worker in api("GET", "/v1/workers").json()["workers"]] == [second]
    everyone = api("GET", "/v1/workers?include_left=true").json()["workers"]
    assert {worker["id"]: worker["health"] for worker in everyone} == {first: "left", second: "alive"}
    assert problem(beat(api, first), 404)["code"] == "worker_not_found"


def test_the_fleet_is_paged_by_name(api):
    """Of one name too: those that left, the earliest first."""
    names = ["b", "\U0001f9a5" * 200, "a", "b", "c"]
    ids = {api.join(name=name).json()["worker_id"]: name for name in names}
    path = "/v1/workers?include_left=true&page_size=2"
    pages = [api("GET", path).json()]
    while token := pages[-1]["next_page_token"]:
        pages.append(api("GET", f"{path}&page_token={token}").json())
    seen = [worker["id"] for page in pages for worker in page["workers"]]
    assert [len(page["workers"]) for page in pages] == [2, 2, 1]
    assert [ids[worker] for worker in seen] == sorted(names)
    assert [worker for worker in seen if ids[worker] == "b"] == [
        worker for worker in ids if ids[worker] == "b"
    ]


def test_a_living_workers_name_is_not_taken_by_another_token(api, engine):
    worker_id = api.join().json()["worker_id"]
    refused = problem(api.join(as_="other-worker"), 409)
    assert (refused["code"], "TILEFARM_WORKER_NAME" in refused["detail"]) == ("name_taken", True)
    assert beat(api, worker_id).status_code == 200
    age(engine, 31)
    assert api.join(as_="other-worker").status_code == 201


def test_a_silent_worker_is_stale_then_dead_by_database_time(api, engine):
    worker_id = api.join().json()["worker_id"]
    assert health(api) == ["alive"]
    age(engine, 7)
    assert health(api) == ["stale"]
    age(engine, 31)
    assert health(api) == ["dead"]
    assert api("GET", "/v1/targets/local").json()["workers_alive"] == 0
    assert beat(api, worker_id).json() == {"drop": [], "drain": False, "best_latency_secs": {}}
    assert health(api) == ["alive"]


def test_a_heartbeat_drops_what_is_no_longer_wanted(api, engine):
    worker_id = api.join().json()["worker_id"]
    jobs = {name: api.submit(seed=seed).json()["id"] for seed, name in enumerate(("runs", "stops", "pauses"))}
    trials = {
        name: add_trials(engine, job_id, state="dispatched", attempt=1)[0] for name, job_id in jobs.items()
    }
    (done,) = add_trials(engine, jobs["runs"], outcome="ok", attempt=1)
    set_job(engine, jobs["stops"], desired_state="cancelled")
    set_job(engine, jobs["pauses"], desired_state="paused")
    held = [(trials["runs"], 1), (trials["stops"], 1), (trials["pauses"], 1), (done, 1)]
    set_search(engine, best_latency_secs=3e-3)
    answer = beat(api, worker_id, held).json()
    assert answer["drop"] == [[trials["stops"], 1], [trials["pauses"], 1], [done, 1]]
    # What is still held is cut off by its search's newest best.
    (search_id,) = (task["search_id"] for task in api("GET", f"/v1/jobs/{jobs['runs']}").json()["tasks"])
    assert answer["best_latency_secs"] == {str(search_id): 3e-3}
    assert beat(api, worker_id, [(trials["runs"], 2), (10**9, 1)]).json()["drop"] == [
        [trials["runs"], 2],
        [10**9, 1],
    ]


def test_drain_reaches_the_worker_with_its_next_heartbeat(api):
    worker_id = api.join().json()["worker_id"]
    assert problem(api("POST", f"/v1/workers/{worker_id}:drain"), 403)["code"] == "missing_scope"
    assert api("POST", f"/v1/workers/{worker_id}:drain", as_="root").json()["desired_state"] == "draining"
    assert beat(api, worker_id).json()["drain"] is True
    assert api("GET", f"/v1/workers/{worker_id}").json()["state"] == "draining"
    assert api("POST", f"/v1/workers/{worker_id}:resume", as_="root").json()["desired_state"] == "running"
    assert beat(api, worker_id).json()["drain"] is False


def test_an_administrator_lets_a_dead_worker_leave(api, engine):
    worker_id = api.join().json()["worker_id"]
    age(engine, 31)
    path = f"/v1/workers/{worker_id}:leave"
    assert problem(api("POST", path, as_="other-worker"), 403)["code"] == "not_this_worker"
    assert health(api) == ["dead"]
    assert api("POST", path, as_="root").status_code == 204
    assert health(api) == []


def test_a_worker_that_was_silent_for_a_week_has_left_when_another_joins(api, engine):
    """In a cluster each pod has another name, and one that was killed never says that it leaves."""
    for name, days in (("killed", 8), ("away", 6)):
        worker_id = api.join(name=name).json()["worker_id"]
        with transaction(engine) as session:
            since = utc_now(offset_secs=-86_400.0 * days)
            session.execute(update(WorkerRow).where(WorkerRow.id == worker_id).values(heartbeat_at=since))
    api.join(name="new")
    assert {worker["name"] for worker in api("GET", "/v1/workers").json()["workers"]} == {"away", "new"}


def test_a_worker_leaves_once(api):
    worker_id = api.join().json()["worker_id"]
    assert api("POST", f"/v1/workers/{worker_id}:leave", as_="worker").status_code == 204
    assert problem(api("POST", f"/v1/workers/{worker_id}:leave", as_="worker"), 404)
    assert api("GET", "/v1/workers").json()["workers"] == []


def test_a_worker_with_a_mislabelled_target_or_profile_is_refused(api):
    assert problem(api.join(target={**TARGET, "mcpu": "znver99"}), 422)["code"] == "unknown_mcpu"
    assert problem(api.join(target={**TARGET, "libs": ["x"]}), 422)["code"] == "bad_target_option"
    assert problem(api.join(profiles=["Not A Name"]), 422)["code"] == "bad_profile"
    assert problem(api.join(cores=0), 422)
    assert problem(api.join(as_="alice"), 403)["code"] == "missing_scope"


def test_a_target_whose_code_the_host_cannot_run_is_refused_with_the_reason(api):
    avx512 = {**TARGET, "mcpu": "x86-64-v4"}
    v3 = ["avx", "avx2", "bmi", "bmi2", "f16c", "fma", "sse4.1", "sse4.2"]
    host = {"features": v3, "machine": "x86_64"}
    refused = problem(api.join(target=avx512, role="measure", **host), 422)
    assert refused["code"] == "mislabelled_target"
    assert "'x86-64-v4' needs CPU features which this host does not have: avx512bw" in refused["detail"]
    assert (
        problem(api.join(target=TARGET, features=v3, machine="aarch64"), 422)["code"] == "mislabelled_target"
    )
    assert api.join(target=TARGET, **host).status_code == 201
    assert api.join(target=avx512, role="build", **host).status_code == 201
    assert api.join(target=avx512, features=[*v3, *_AVX512], machine="x86_64").status_code == 201


def test_a_gpus_worker_joins_with_a_target_that_the_gpu_runs(api):
    gpu = {
        "kind": "cuda",
        "arch": "sm_80",
        "max_threads_per_block": 1024,
        "max_shared_memory_per_block": 49152,
    }
    assert api.join(target=gpu, features=["avx2", "sm_86"], machine="x86_64").status_code == 201
    refused = problem(api.join(target=gpu, features=["avx2", "sm_90a"], machine="x86_64"), 422)
    assert refused["code"] == "mislabelled_target"
    assert "sm_80 does not run on this host's GPU, an sm_90a" in refused["detail"]
    assert problem(api.join(target=gpu, features=["avx2"], machine="x86_64"), 422)
    assert api.join(target=gpu, role="build", features=["avx2"], machine="x86_64").status_code == 201


def test_a_worker_is_spoken_for_by_the_token_that_it_joined_with(api):
    worker_id = api.join().json()["worker_id"]
    body = {"holding": [], "stage_secs": {}}
    for verb in ("heartbeat", "leave"):
        answer = api("POST", f"/v1/workers/{worker_id}:{verb}", as_="other-worker", json=body)
        assert problem(answer, 403)["code"] == "not_this_worker"
    assert beat(api, worker_id).status_code == 200


def test_each_role_has_a_queue_of_its_own_and_a_device_counts_where_somebody_builds(api):
    both = api.join().json()["queues"]
    measure = api.join(name="board", role="measure").json()["queues"]
    assert api("GET", "/v1/targets/local").json()["workers_alive"] == 1
    build = api.join(name="builder", role="build").json()["queues"]
    assert len({*both, *measure, *build}) == 3
    assert api("GET", "/v1/targets/local").json()["workers_alive"] == 2


def test_a_heartbeat_holds_pairs_of_integers(api):
    worker_id = api.join().json()["worker_id"]
    for holding in ([[1]], [[1, 2, 3]], [["1", 1]], [[2**63, 1]], [[-1, 1]], 3):
        response = api("POST", f"/v1/workers/{worker_id}:heartbeat", as_="worker", json={"holding": holding})
        assert problem(response, 422)


def test_a_quarantined_worker_says_so_and_its_device_is_described(api, engine):
    worker_id = api.join(facts={"cpu": "test"}).json()["worker_id"]
    facts = {"selftest": {"fma_gflops_all_cores": 400.0}, "quarantine": "the reference kernel is 30% slower"}
    body = {"holding": [], "quarantined": True, "facts": facts}
    answer = api("POST", f"/v1/workers/{worker_id}:heartbeat", as_="worker", json=body)
    assert answer.json() == {"drop": [], "drain": False, "best_latency_secs": {}}
    (worker,) = api("GET", "/v1/workers").json()["workers"]
    assert (worker["state"], worker["health"], worker["desired_state"]) == ("quarantined", "alive", "running")
    assert worker["facts"] == {"cpu": "test", **facts}
    with transaction(engine) as session:
        assert [seen.accepts for seen in read_fleet(session, dead_after_secs=10)] == [False]
    assert api("GET", "/v1/targets/local").json()["workers_alive"] == 0
    assert "no_worker" in [w["code"] for w in api.submit(target="local").json()["warnings"]]
    beat(api, worker_id)
    (worker,) = api("GET", "/v1/workers").json()["workers"]
    assert (worker["state"], worker["facts"]) == ("running", {"cpu": "test", **facts})
    with transaction(engine) as session:
        assert [seen.accepts for seen in read_fleet(session, dead_after_secs=10)] == [True]


def test_a_device_is_told_the_selftest_kernels_of_its_targets_builders(api):
    builder = api.join(name="builder", role="build").json()["worker_id"]
    board = api.join(name="board", role="measure").json()["worker_id"]

    def asked():
        return api("GET", f"/v1/workers/{board}/selftest-kernels", as_="worker")

    def tell(kernels) -> None:
        body = {"holding": [], "stage_secs": {}, "facts": {"selftest_kernels": kernels}}
        assert api("POST", f"/v1/workers/{builder}:heartbeat", as_="worker", json=body).is_success

    assert problem(asked(), 404)["code"] == "selftest_kernels_not_found"
    tell({"sha256": "../../etc/passwd", "lanes": 8, "elements": 1024, "cores": 2})
    assert problem(asked(), 404)["code"] == "selftest_kernels_not_found"
    tell({"sha256": "a" * 64, "lanes": 8, "elements": 1024, "cores": 2})
    assert asked().json() == {"sha256": "a" * 64, "lanes": 8, "elements": 1024, "cores": 2}
    assert api("GET", f"/v1/workers/{board}/selftest-kernels").status_code == 403
