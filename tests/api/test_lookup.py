"""The compile-time question: exactly the asked target and TVM, or a miss that says what there is instead."""

import json
import os
from urllib.parse import urlsplit

import psutil
import pytest
from sqlalchemy import select, update

from checks.target import key
from db.session import transaction
from db.tables import RecordRow, WorkloadRow
from tests.api.conftest import TARGET, problem
from tests.api.rows import publish
from tests.checks import modules
from tilefarm import answers, lookups
from tilefarm.breaker import CircuitBreaker
from tilefarm.cache import DiskCache
from tilefarm.client import Client
from tilefarm.joined_module import joined

TVM = "0.27.0.post1"
UNKNOWN = "0123456789abcdef"


def look_up(api, workloads, *, target=TARGET, tvm_version=TVM, as_="consumer"):
    body = {"target": target, "tvm_version": tvm_version, "workloads": workloads}
    return api("POST", "/v1/lookup", as_=as_, json=body)


@pytest.fixture
def job(api) -> dict:
    return api.submit().json()


def test_the_newest_published_record_is_found(api, engine, job):
    shash = job["tasks"][0]["workload"]
    publish(engine, job["id"], latency_secs=2e-4)
    newest = publish(engine, job["id"], latency_secs=3e-4)
    publish(engine, job["id"], latency_secs=1e-9, state="quarantined")
    answer = look_up(api, [shash, UNKNOWN]).json()
    (found,) = answer["records"][shash]
    assert (found["record_id"], found["latency_secs"], found["tvm_version"]) == (newest, 3e-4, TVM)
    assert found["trace"] == [[], []]
    assert '"tirx.PrimFunc"' in found["module"]
    assert [miss["shash"] for miss in answer["missing"]] == [UNKNOWN]
    assert answer["missing"][0]["nearest"] is None
    assert "tilefarm submit" in answer["missing"][0]["hint"]
    assert answer["target"] == TARGET


@pytest.mark.parametrize(
    "change",
    [{"num-cores": 4}, {"mcpu": "x86-64-v4"}, {"mattr": ["+avx512f"]}, {"mtriple": "aarch64-linux-gnu"}],
)
def test_another_target_is_a_miss_that_names_the_nearest(api, engine, job, change):
    shash = job["tasks"][0]["workload"]
    publish(engine, job["id"])
    answer = look_up(api, [shash], target={**TARGET, **change}).json()
    assert answer["records"] == {}
    assert '"x86-64-v3"' in answer["missing"][0]["nearest"]


def test_another_tvm_is_a_miss_that_names_the_nearest(api, engine, job):
    shash = job["tasks"][0]["workload"]
    publish(engine, job["id"])
    answer = look_up(api, [shash], tvm_version="0.28.0").json()
    assert answer["records"] == {}
    assert answer["missing"][0]["nearest"] == f"TVM {TVM}, same target"


def test_a_profile_names_its_exact_target(api, engine, job, profile):
    publish(engine, job["id"])
    assert look_up(api, [job["tasks"][0]["workload"]], target=profile).json()["records"]
    listed = api("GET", "/v1/targets", as_="consumer").json()["targets"]
    assert [(entry["name"], entry["target"], entry["workers_alive"]) for entry in listed] == [
        ("local", TARGET, 0)
    ]
    assert api("GET", "/v1/targets/local", as_="consumer").json() == listed[0]


def test_a_whole_model_is_one_question_and_bounded(api):
    assert len(look_up(api, [f"{n:016x}" for n in range(1000)]).json()["missing"]) == 1000
    assert problem(look_up(api, [f"{n:016x}" for n in range(1001)]), 422)["code"] == "too_many_workloads"
    for bad in (["xyz"], ["0123456789ABCDEF"], [1]):
        assert problem(look_up(api, bad), 422)
    assert problem(look_up(api, [], target="nope"), 422)["code"] == "unknown_target"
    assert look_up(api, []).json()["missing"] == []


def test_records_are_listed_filtered_and_shown(api, engine, job):
    ids = [publish(engine, job["id"], latency_secs=1e-4 * n) for n in (3, 2, 1)]
    page = api("GET", "/v1/records?page_size=2", as_="consumer").json()
    rest = api("GET", f"/v1/records?page_size=2&page_token={page['next_page_token']}", as_="consumer").json()
    assert [record["id"] for record in page["records"] + rest["records"]] == ids[::-1]
    key = page["records"][0]["target_key"]
    assert len(api("GET", f"/v1/records?target_key={key}").json()["records"]) == 3
    assert api("GET", f"/v1/records?target_key={'0' * 64}").json()["records"] == []
    assert api("GET", f"/v1/records?workload={UNKNOWN}").json()["records"] == []
    assert api("GET", "/v1/records?state=revoked").json()["records"] == []
    shown = api("GET", f"/v1/records/{ids[0]}").json()
    assert (shown["trace"], shown["latency_secs"]) == ([[], []], pytest.approx(3e-4))
    assert shown["gflops"] == pytest.approx(job["tasks"][0]["flops"] / 3e-4 / 1e9)


def look_up_again(api, workloads, etag="", *, target=None, **headers):
    params = {
        "target": json.dumps(TARGET) if target is None else target,
        "tvm_version": TVM,
        "workloads": ",".join(workloads),
    }
    return api("GET", "/v1/lookup", as_="consumer", params=params, headers={"If-None-Match": etag, **headers})


def test_what_has_not_changed_is_not_sent_again(api, engine, job, profile):
    shash = job["tasks"][0]["workload"]
    publish(engine, job["id"])
    first = look_up(api, [shash, UNKNOWN])
    etag = first.headers["ETag"]
    found = first.json()["records"][shash][0]
    # A client that kept the parts of it, in another order, computes the same.
    etags = {UNKNOWN: "", shash: found["etag"]}
    assert etag == answers.batch_etag(key(TARGET), TVM, etags)
    for known in (etag, f'"other", {etag}', etag.removeprefix("W/")):
        again = look_up_again(api, [UNKNOWN, shash], known)
        assert (again.status_code, again.content, again.headers["ETag"]) == (304, b"", etag)
    assert look_up_again(api, [shash, UNKNOWN], etag, target=profile).status_code == 304
    assert look_up_again(api, [shash], etag).status_code == 200
    assert look_up_again(api, [shash, UNKNOWN], "").json() == first.json()
    publish(engine, job["id"], latency_secs=5e-5)
    changed = look_up_again(api, [shash, UNKNOWN], etag)
    assert changed.status_code == 200
    assert changed.headers["ETag"] != etag
    assert changed.json()["records"][shash][0]["latency_secs"] == 5e-5


def test_a_revoked_record_changes_the_answer(api, engine, job):
    shash = job["tasks"][0]["workload"]
    record_id = publish(engine, job["id"])
    etag = look_up(api, [shash]).headers["ETag"]
    with transaction(engine) as session:
        session.get_one(RecordRow, record_id).state = "revoked"
    again = look_up_again(api, [shash], etag)
    assert again.status_code == 200
    assert again.json()["records"] == {}


def test_a_large_answer_is_compressed_for_whoever_takes_it(api, engine, job):
    shash = job["tasks"][0]["workload"]
    publish(engine, job["id"])
    packed = look_up_again(api, [shash], **{"Accept-Encoding": "br, gzip"})
    assert packed.headers["Content-Encoding"] == "gzip"
    assert int(packed.headers["Content-Length"]) < len(packed.content) / 3
    for refusing in ("identity", "gzip;q=0", ""):
        plain = look_up_again(api, [shash], **{"Accept-Encoding": refusing})
        assert "Content-Encoding" not in plain.headers
        assert plain.json() == packed.json()


def test_a_question_that_does_not_read_is_a_problem(api):
    asked = {"target": json.dumps(TARGET), "tvm_version": TVM, "workloads": UNKNOWN}
    assert api("GET", "/v1/lookup", as_="nobody", params=asked).status_code == 403
    for bad in (
        {"workloads": "xyz"},
        {"tvm_version": "a b"},
        {"target": "{"},
        {"target": "[" * 7000},
        {"target": '{"kind": "llvm", "mcpu": "x", "num-cores": 1, "cl-opt": "x"}'},
        {"target": '{"a":' * 1200},
        {"workloads": ",".join(f"{n:016x}" for n in range(1001))},
    ):
        problem(api("GET", "/v1/lookup", as_="consumer", params={**asked, **bad}), 422)


def test_the_real_client_and_the_real_service_agree(service, api, engine, job, tmp_path):
    shash = job["tasks"][0]["workload"]
    publish(engine, job["id"])
    kept = DiskCache(tmp_path)

    def ask() -> object:
        with Client(service[1], api.tokens["consumer"]) as client:
            breaker = CircuitBreaker(cooling_secs=30)
            asking = lookups.Lookups(client, timeout_secs=10, breaker=breaker, cache=kept)
            return asking.ask(TARGET, tvm_version=TVM, workloads=[shash, UNKNOWN])

    first = ask()
    for path in tmp_path.glob("*/*"):
        os.utime(path, (1e9, 1e9))
    assert ask() == first
    assert isinstance(first[shash], answers.Record)
    assert isinstance(first[UNKNOWN], answers.Missing)
    # Confirmed, so that it is fresh once more.
    assert all(path.stat().st_mtime > 1.1e9 for path in tmp_path.glob("*/*"))


def connections(url: str) -> set[int]:
    """Ports of this process that are connected to a service."""
    port = urlsplit(url).port
    found = psutil.Process().net_connections("tcp")
    return {each.laddr.port for each in found if each.raddr and each.raddr.port == port}


def test_many_questions_take_one_connection(service, api):
    """Each is asked on a thread of its own."""
    others = connections(service[1])
    seen = set()
    with Client(service[1], api.tokens["consumer"]) as client:
        asking = lookups.Lookups(client, timeout_secs=10, breaker=CircuitBreaker(cooling_secs=30))
        for number in range(20):
            shash = f"{number:016x}"
            assert asking.ask(TARGET, tvm_version=TVM, workloads=[shash]) == {shash: answers.Missing()}
            seen |= connections(service[1]) - others
    assert len(seen) == 1


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"num-cores": 4}, "num-cores"),
        ({"mcpu": "haswell"}, "mcpu-family"),
        ({"mcpu": "x86-64-v4"}, None),
        ({"mcpu": "haswell", "num-cores": 4}, None),
        ({"mattr": ["+avx512f"]}, None),
    ],
)
def test_a_near_record_stands_apart_and_only_where_its_rule_was_named(api, engine, job, change, rule):
    shash = job["tasks"][0]["workload"]
    publish(engine, job["id"], latency_secs=1e-3)
    newest = publish(engine, job["id"], latency_secs=2e-4)
    asked = {"target": {**TARGET, **change}, "tvm_version": TVM, "workloads": [shash, UNKNOWN]}

    def near(*rules):
        answer = api("POST", "/v1/lookup", as_="consumer", json={**asked, "near": list(rules)}).json()
        assert answer["records"] == {}
        return answer["near"]

    assert near() == {}
    found = near("num-cores", "mcpu-family")
    if rule is None:
        assert found == {}
        return
    assert found.keys() == {shash}
    told = found[shash]
    assert (told["rule"], told["record_id"], told["target"]) == (rule, newest, TARGET)
    assert near(*({"num-cores", "mcpu-family"} - {rule})) == {}
    assert near(rule) == found


def test_of_near_records_the_nearest_number_of_cores_wins(api, engine):
    for cores in (1, 8, 64):
        publish(engine, api.submit(target={**TARGET, "num-cores": cores}).json()["id"])
    shash = api.submit().json()["tasks"][0]["workload"]
    asked = {"target": {**TARGET, "num-cores": 6}, "tvm_version": TVM, "workloads": [shash]}
    answer = api("POST", "/v1/lookup", as_="consumer", json={**asked, "near": ["num-cores"]}).json()
    assert answer["near"][shash]["target"]["num-cores"] == 8


def test_by_the_anchor_block_the_newest_record_of_another_workload_is_near(api, engine, job):
    """An intake child computed the hashes; here another function asks with the same."""
    older = publish(engine, job["id"])
    conv2d = api.submit(module="conv2d").json()
    publish(engine, conv2d["id"])
    shash, other = (each["tasks"][0]["workload"] for each in (job, conv2d))
    with transaction(engine) as session:
        anchors = dict(session.execute(select(WorkloadRow.shash, WorkloadRow.anchor_hash)).all())
    assert anchors[shash] != anchors[other]
    asked = {"target": TARGET, "tvm_version": TVM, "workloads": [UNKNOWN]}
    asked |= {"near": ["num-cores", "anchor-block"], "anchors": {UNKNOWN: anchors[shash]}}

    def near(**changes):
        answer = api("POST", "/v1/lookup", as_="consumer", json={**asked, **changes}).json()
        assert answer["records"] == {}
        return [(shash, found["record_id"], found["rule"]) for shash, found in answer["near"].items()]

    assert near() == [(UNKNOWN, older, "anchor-block")]
    newest = publish(engine, job["id"])
    assert near() == [(UNKNOWN, newest, "anchor-block")]
    for change in (
        {"near": ["num-cores"]},
        {"anchors": {}},
        {"anchors": {UNKNOWN: UNKNOWN}},
        {"target": {**TARGET, "num-cores": 4}},
        {"tvm_version": "0.26.0"},
    ):
        assert near(**change) == []


def test_a_workload_that_was_stored_without_its_anchor_block_gets_it(api, engine, job):
    with transaction(engine) as session:
        known = session.scalars(select(WorkloadRow.anchor_hash)).one()
        session.execute(update(WorkloadRow).values(anchor_hash=None))
    assert known is not None
    api.submit()
    with transaction(engine) as session:
        assert session.scalars(select(WorkloadRow.anchor_hash)).one() == known


def test_what_a_model_missed_is_taken_as_one_job(api):
    """As on_miss="submit" sends it: joined from the functions' own modules, without TVM."""
    alone = {
        name: api.submit(module=name).json()["tasks"][0]["workload"] for name in ("matmul_relu", "softmax")
    }
    text = joined({f"f_{name}": json.dumps(modules.graph(name)) for name in alone})
    body = {"module": text, "target": TARGET, "max_trials": 512, "weights": {"f_softmax": 3.0}}
    job = api("POST", "/v1/jobs", json=body)
    assert job.status_code == 201, job.text
    tasks = {task["name"]: (task["workload"], task["weight"]) for task in job.json()["tasks"]}
    assert tasks == {"f_matmul_relu": (alone["matmul_relu"], 1.0), "f_softmax": (alone["softmax"], 3.0)}
