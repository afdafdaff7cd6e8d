"""The pages of tasks, trials, failures, the fleet and records, with rows and without; static files."""

import gzip
import json
from pathlib import Path

import pytest

from checks.target import key
from db.session import transaction
from db.states import Outcome
from db.targets import store_target
from db.workers import NewWorker, beat, join, read_worker
from tests.api.rows import add_trials, publish, set_job, set_search
from tests.dashboard.conftest import TARGET

XSS = '<script>alert("x")</script>'

FACTS = {
    "noise": 0.01,
    "cpu": XSS,
    "sensors": {"temperature_celsius": 61.4, "clock_mhz": 2450},
    "selftest": {"between_processes_p50": 0.012, "between_processes_p90": 0.04},
}


@pytest.fixture
def worker(engine) -> str:
    with transaction(engine) as session:
        target = store_target(session, TARGET, key=key(TARGET))
        new = NewWorker(
            name=f"here:{XSS}", host="here", device="cpu0", device_class=XSS, target_id=target.id,
            role="both", cores=2, memory_bytes=1 << 30, tvm_version="0.27", facts=FACTS,
        )  # fmt: skip
        return join(session, new)


def task_id(browser, job_id: str) -> str:
    return browser.page(f"/jobs/{job_id}").partition('href="/tasks/')[2].partition('"')[0]


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/failures", "No candidate has failed"),
        ("/fleet", "tilefarm-server worker --join"),
        ("/records", "No record yet"),
    ],
)
def test_an_empty_page_says_what_it_will_show(browse, path, said):
    assert said in browse().page(path)


@pytest.mark.parametrize("path", ["/tasks/99", "/trials/99", "/failures?job=job-x"])
def test_what_is_not_there_is_told_on_a_page(browse, path):
    answer = browse().get(path)
    assert answer.status_code == 404
    assert "There is no" in answer.text


def test_a_mistyped_address_is_a_page_for_people_and_a_problem_for_programs(browse):
    client = browse().client
    said = client.get("/job", headers={"Accept": "text/html,*/*"})
    assert said.status_code == 404
    assert "There is no such path" in said.text
    assert "default-src 'none'" in said.headers["content-security-policy"]
    assert client.get("/job").json()["type"].endswith("/not_found")


def test_a_task_tells_its_numbers_and_its_newest_trials(browse, farm, engine):
    job_id = farm.job(tasks=("dense",))
    add_trials(engine, job_id, outcome="ok", latency_secs=1e-3)
    add_trials(engine, job_id, outcome="wrong_output", error="1 of 4 elements differ")
    set_search(engine, best_latency_secs=1e-3, untuned_latency_secs=4e-3)
    browser = browse()
    page = browser.page(f"/tasks/{task_id(browser, job_id)}")
    assert "4.00×" in page
    assert "wrong output" in page
    assert "1 of 4 elements differ" in page
    assert "plotly.min.js" in page


def test_the_curve_of_a_task_comes_as_columns_with_failures_that_have_no_value(browse, farm, engine):
    job_id = farm.job()
    add_trials(engine, job_id, outcome="ok", latency_secs=2e-3, predicted_score=0.5)
    add_trials(engine, job_id, outcome="build_error")
    add_trials(engine, job_id, outcome="ok", latency_secs=1e-3, attempt=3)
    add_trials(engine, job_id, state="queued")
    publish(engine, job_id, latency_secs=9e-4)
    browser = browse()
    curve = browser.get(f"/tasks/{task_id(browser, job_id)}/curve").json()
    assert curve["numbers"] == [1, 2, 3]
    assert curve["latencies_secs"] == [2e-3, None, 1e-3]
    assert curve["outcomes"] == ["ok", "build_error", "ok"]
    assert curve["improvements"] == [True, False, True]
    assert curve["predicted"] == [0.5, None, None]
    assert (curve["record_secs"], curve["total"]) == (9e-4, 3)


def test_what_is_to_be_copied_is_python_whatever_the_target_is_called(browse, farm, engine):
    job_id = farm.job()
    set_job(engine, job_id, target_name='"); import os #</pre>')
    browser = browse()
    page = browser.page(f"/tasks/{task_id(browser, job_id)}")
    assert r'database.target("\"); import os #\u003c/pre\u003e")' in page


def test_the_curve_takes_a_session(browse, farm):
    farm.job()
    assert browse(None).get("/tasks/1/curve").status_code == 401


def test_a_trial_tells_its_repeats_its_worker_and_its_error(browse, farm, engine, worker):
    job_id = farm.job(tasks=(XSS,))
    (trial_id,) = add_trials(
        engine, job_id, outcome="run_error", error=f"line one\n{XSS}", worker_id=worker, device_class="cpu/2",
        stage_secs={"build": 0.25},
    )  # fmt: skip
    page = browse().page(f"/trials/{trial_id}")
    assert "run error" in page
    assert "250 ms" in page
    assert "0.01" in page
    assert "&lt;script&gt;alert(" in page
    assert "<script>alert" not in page


def test_failures_are_grouped_and_counted_and_lead_to_their_trials(browse, farm, engine):
    job_id, other = farm.job("one"), farm.job("two")
    for n in range(3):
        newest = add_trials(engine, job_id, outcome="build_error", error=f"needs {n} bytes", attempt=n)
    add_trials(engine, other, outcome="run_timeout", error=XSS)
    add_trials(engine, other, outcome="cut_off", latency_secs=1.0)
    browser = browse()
    everything, of_one = browser.page("/failures"), browser.page(f"/failures?job={job_id}")
    assert everything.count("<pre") == 2
    assert of_one.count("<pre") == 1
    assert "needs ⟨n⟩ bytes" in of_one
    assert "build error <b>3</b>" in of_one
    assert f'href="/trials/{newest[0]}"' in of_one
    assert "<script>alert" not in everything
    assert Outcome.CUT_OFF.value not in everything


def test_the_fleet_tells_what_a_worker_does_and_what_waits(browse, farm, engine, worker):
    job_id = farm.job(tasks=("conv2d",))
    (held,) = add_trials(engine, job_id, state="dispatched")
    add_trials(engine, job_id, state="queued", count=5)
    with transaction(engine) as session:
        beat(session, worker, token_id=1, holding=[(held, 1)], stage_secs={})
    page = browse("root").page("/fleet")
    assert f'<a href="/trials/{held}">conv2d</a>' in page
    assert ">alive<" in page
    for measured in ("61 °C", "2.45 <small>GHz", ">1.2 %<"):
        assert measured in page
    for whole in ("1<em> / 1</em>", "<span>Waiting</span><b>5</b>", "<span>At workers</span><b>1</b>"):
        assert whole in page
    assert 'title="kind=llvm mcpu=x86-64-v3 num-cores=2 "' in page
    assert '<td class="num">5</td>' in page
    assert "<script>alert" not in page
    assert "Drain" in page
    assert "Drain" not in browse("alice").page("/fleet")


def test_an_administrator_drains_a_worker_and_no_one_else(browse, engine, worker):
    assert browse("alice").post(f"/workers/{worker}/ask", {"desired": "draining"}).status_code == 403
    assert browse("root").post(f"/workers/{worker}/ask", {"desired": "draining"}).status_code == 200
    with transaction(engine) as session:
        assert read_worker(session, worker).desired_state == "draining"


def test_records_are_found_by_name_and_by_hash_with_their_coverage(browse, farm, engine):
    blocks = {"nodes": [{"type": "s_tir.SBlock", "data": {"name_hint": 1}}, {"data": "T_matmul_NT"}]}
    first = farm.job("a", tasks=("dense_1",), module=json.dumps(blocks))
    farm.job("b", tasks=("conv",))
    publish(engine, first, latency_secs=5e-6)
    browser = browse()
    page = browser.page("/records")
    assert "5.00 µs" in page
    assert "dense_1" in page
    assert "<small>1 of 2</small>" in page
    assert "no record" in page
    assert "5.00 µs" in browser.page("/records?q=DENSE_")
    assert "5.00 µs" in browser.page(f"/records?q={1:016x}")
    assert "5.00 µs" in browser.page("/records?q=2x2")
    assert "5.00 µs" in browser.page("/records?q=matmul")
    assert "No record fits" in browser.page("/records?q=conv")
    assert "No workload fits" in browser.page("/records?q=2x3")
    assert browse("bob").get("/records").status_code == 200


def test_static_files_are_named_by_content_compressed_and_kept(browse):
    browser = browse(None)
    answer = browser.get("/static/plotly.min.js?v=1")
    assert answer.headers["content-encoding"] == "gzip"
    assert answer.headers["cache-control"] == "max-age=31536000, immutable"
    assert answer.text.lstrip().startswith("/**")
    with browser.client.stream("GET", "/static/plotly.min.js") as raw:
        weight_bytes = sum(len(part) for part in raw.iter_raw())
    assert weight_bytes < 1_700_000
    assert len(gzip.compress(answer.content, 1)) > 1_000_000
    for name in ("..%2fpage.py", "page.py", "nothing.js", "widgetbundle.js"):
        assert browser.get(f"/static/{name}").status_code == 404


def test_the_example_of_the_first_run_is_the_one_of_the_readme(browse):
    served = browse(None).get("/static/example.job.json")
    assert served.content == (Path(__file__).parents[2] / "examples" / "mm_relu.job.json").read_bytes()
