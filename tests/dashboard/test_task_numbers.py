"""What the charts and files of a task are made of: roofline, decisions, a job that tunes it again."""

import asyncio
import json
import threading
import zlib

import pytest
from sqlalchemy import select, update

from db.farm_tables import WorkerRow
from db.session import transaction
from db.tables import TrialRow
from db.workers import NewWorker, join, list_workers
from services.api.schemas import SubmitJob
from services.api.submission import _check_spaces
from services.dashboard.remembered import Remembered
from services.dashboard.tables import Form, table
from services.roofline import bound
from tests.api.rows import add_trials, set_job, set_search
from tests.dashboard.test_decisions import trace

SELFTEST = {"fma_gflops_all_cores": 500.0, "copy_gb_per_sec_all_cores": 20.0, "last_cache_bytes": 1000}


def a_worker(engine, facts=None) -> None:
    with transaction(engine) as session:
        new = NewWorker(
            name="here", host="here", device="cpu", device_class="cpu 2c", target_id=1, role="both",
            cores=2, memory_bytes=1 << 30, tvm_version="0.27", facts=facts or {"selftest": SELFTEST},
        )  # fmt: skip
        join(session, new)


def test_the_roofline_is_the_devices_peak_or_its_bandwidth_beyond_the_cache(farm, engine):
    farm.job()
    a_worker(engine)
    with transaction(engine) as session:
        workers = list_workers(session)
    key = workers[0].target_key
    small = bound(workers, target_key=key, flops=1e9, args=[{"shape": [2, 2], "dtype": "float32"}])
    assert small is not None
    assert (small.secs, small.says) == (2e-3, "500 GFLOP/s")
    large = bound(workers, target_key=key, flops=1.0, args=[{"shape": [1000, 1000], "dtype": "float16"}])
    assert large is not None
    assert (large.secs, large.says) == (1e-4, "20 GB/s")
    assert bound(workers, target_key="other", flops=1e9, args=[]) is None


def test_a_curve_brings_its_lines_and_is_not_sent_twice(browse, farm, engine):
    job_id = farm.job()
    a_worker(engine)
    add_trials(engine, job_id, outcome="ok", latency_secs=4e-3)
    browser = browse()
    first = browser.get("/tasks/1/curve")
    assert (first.json()["roofline_secs"], first.json()["roofline_says"]) == (2e-3, "500 GFLOP/s")
    again = browser.client.get("/tasks/1/curve", headers={"If-None-Match": first.headers["ETag"]})
    assert (again.status_code, again.content) == (304, b"")
    add_trials(engine, job_id, outcome="ok", latency_secs=3e-3, attempt=1)
    changed = browser.client.get("/tasks/1/curve", headers={"If-None-Match": first.headers["ETag"]})
    assert changed.json()["latencies_secs"] == [4e-3, 3e-3]


def test_decisions_are_read_from_the_traces_and_saved_as_a_table(browse, farm, engine):
    job_id = farm.job()
    for number, inner in enumerate([1, 2, 4, 8, 16, 1, 2, 4]):
        ids = add_trials(engine, job_id, outcome="ok", latency_secs=1e-3 / inner, attempt=number)
        packed = zlib.compress(json.dumps(trace([8, 1, inner])).encode())
        with transaction(engine) as session:
            session.execute(update(TrialRow).where(TrialRow.id == ids[0]).values(trace_z=packed))
    browser = browse()
    found = browser.get("/tasks/1/decisions").json()
    assert found["latencies_secs"][0] == 1e-3 / 16
    assert [(axis["name"], axis["values"][0]) for axis in found["axes"]] == [("C loop 1 tile", 16)]
    lines = browser.get("/download/tasks/1/decisions.csv").text.splitlines()
    assert lines[0] == "trial,latency_secs,C loop 1 tile 3 of 3"
    assert len(lines) == 9
    assert browser.get("/download/tasks/1/trials.json").json()[0]["outcome"] == "ok"


def test_a_task_is_saved_as_a_job_that_tunes_it_again_in_a_search_of_its_own(browse, farm, engine):
    job_id = farm.job("mine", tasks=("dense",))
    set_job(engine, job_id, seed=7)
    body = browse().get("/tasks/1/job.json").json()
    assert (body["seed"], body["strategy"], body["target"]["mcpu"]) == (7, "evolutionary", "x86-64-v3")
    assert body["options"]["isolation_key"] == f"again-{job_id}"


@pytest.mark.parametrize(
    ("space", "asked"),
    [
        (None, {"space": "stock"}),
        ({"rules": "tilefarm"}, {"space": "tilefarm"}),
        ({"traces": [[[], []]]}, {"spaces": {"main": {"traces": [[[], []]]}}}),
    ],
    ids=["stock", "tilefarm", "of its own"],
)
def test_a_task_that_is_tuned_again_is_searched_in_the_same_space(browse, farm, engine, space, asked):
    farm.job()
    set_search(engine, space=space)
    body = browse().get("/tasks/1/job.json").json()
    request = SubmitJob(**body)
    _check_spaces(request.spaces)
    assert {name: body[name] for name in ("space", "spaces") if name in body} == asked


def test_an_import_is_tuned_again_as_the_service_tunes_by_itself(browse, farm, engine):
    job_id = farm.job()
    set_job(engine, job_id, strategy="imported")
    set_search(engine, space={"imported": [1]})
    body = browse().get("/tasks/1/job.json").json()
    assert SubmitJob(**body).strategy == "evolutionary"
    assert not body.keys() & {"space", "spaces"}


def test_a_worker_that_has_left_still_lends_its_name_and_its_roofline(browse, farm, engine):
    job_id = farm.job()
    a_worker(engine)
    with transaction(engine) as session:
        worker_id = session.scalars(select(WorkerRow.id)).one()
        session.execute(update(WorkerRow).values(name="the board", state="left"))
    add_trials(engine, job_id, outcome="ok", latency_secs=4e-3, worker_id=worker_id)
    assert "the board" in browse().page("/tasks/1")
    assert browse().get("/tasks/1/curve").json()["roofline_says"] == "500 GFLOP/s"


def test_a_worker_that_tells_nonsense_of_itself_breaks_no_page(browse, farm, engine):
    job_id = farm.job()
    a_worker(engine, facts={"selftest": "fast", "sensors": [1]})
    browser = browse()
    assert [browser.get(path).status_code for path in ("/fleet", "/tasks/1", f"/jobs/{job_id}")] == [200] * 3
    assert browser.get("/tasks/1/curve").json()["roofline_secs"] is None


def test_the_timeline_shows_what_a_worker_has_done(browse, farm, engine):
    job_id = farm.job()
    a_worker(engine)
    with transaction(engine) as session:
        (worker_id,) = session.scalars(WorkerRow.__table__.select().with_only_columns(WorkerRow.id)).all()
    add_trials(
        engine, job_id, outcome="ok", latency_secs=1.0, worker_id=worker_id,
        stage_secs={"build": 120.0, "measure": 60.0, "wait": 999.0},
    )  # fmt: skip
    browser = browse()
    assert "busy 10 % of the last half hour" in browser.page("/fleet")
    bars = browser.get("/download/activity.json").json()
    assert sum(bar["measuring"] for bar in bars) * 20 == pytest.approx(60.0, abs=0.1)
    assert bars[-1]["measuring"] > 0.9
    assert bars[0] == {"worker": "here", "from_secs_ago": 1800.0, "building": 0.0, "measuring": 0.0}


def test_what_is_remembered_is_made_once_until_its_mark_changes():
    remembered, made = Remembered(), []

    def make(before: int | None) -> int:
        made.append(before)
        return len(made)

    threads = [threading.Thread(target=remembered.get, args=("a", 1, make)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert remembered.get("a", 1, make) == 1
    assert remembered.get("a", 2, make) == 2
    assert remembered.get("b", 2, make) == 3
    assert made == [None, 1, None]


def test_of_what_is_remembered_that_stays_which_is_asked_for():
    remembered = Remembered(kept=2)
    for key in ("often", "once", "often", "new"):
        remembered.get(key, 1, lambda _: 0)
    made = []
    remembered.get("often", 1, made.append)
    remembered.get("once", 1, made.append)
    assert made == [None]


def test_a_column_that_a_block_named_is_a_cell_and_no_formula():
    columns = ("trial", 'a "b", c', "=1+1")
    answer = table("x", Form.CSV, columns, [dict.fromkeys(columns, 1)])

    async def read() -> list[str]:
        return [str(part) async for part in answer.body_iterator]

    assert asyncio.run(read()) == ['trial,"a ""b"", c",\'=1+1\r\n', "1,1,1\r\n"]


def test_every_chart_of_a_task_and_of_a_trial_is_saved_as_it_is_drawn(browse, farm, engine):
    job_id = farm.job()
    for number, secs in enumerate([4e-3, 2e-3, 8e-3, 1e-3, 2e-3], 1):
        add_trials(
            engine, job_id, outcome="ok", latency_secs=secs, round=1, predicted_score=1e-3 / secs,
            stage_secs={"build": 0.5, "measure": 0.1}, attempt=number,
        )  # fmt: skip
    add_trials(engine, job_id, outcome="run_error", attempt=9)
    browser = browse()
    drawn = browser.get("/tasks/1/curve").json()
    saved = {name: browser.get(f"/download/tasks/1/{name}.json").json() for name in ("ranks", "spread")}
    assert saved["ranks"] == drawn["rank_by_round"] == [{"round": 1, "rank": 1.0}]
    assert saved["spread"] == drawn["spread"]
    assert sum(each["trials"] for each in drawn["spread"]) == 5
    assert drawn["spread"][0]["from_secs"] == pytest.approx(1e-3)
    assert drawn["spread"][-1]["to_secs"] == pytest.approx(8e-3)
    predicted = browser.get("/download/tasks/1/predictions.json").json()
    assert [each["latency_secs"] for each in predicted] == [4e-3, 2e-3, 8e-3, 1e-3, 2e-3]
    assert browser.get("/download/trials/1/repeats.csv").text == "repeat,secs\r\n1,0.004\r\n"
    assert browser.get("/download/trials/1/seconds.json").json() == [
        {"stage": "build", "secs": 0.5},
        {"stage": "measure", "secs": 0.1},
    ]
    assert browser.get("/download/trials/99/repeats.csv").status_code == 404
