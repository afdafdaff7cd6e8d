"""What lookups ask for is counted and shown, and what they miss can be tuned by a press."""

import re

import pytest
from sqlalchemy import select

from checks.target import key
from db.lookup_traffic import MissKey, most_missed, traffic_by_hour
from db.session import reading, transaction
from db.tables import JobRow, TaskRow
from services.api.lookup_traffic import LookupTraffic
from tests.api.rows import publish
from tests.dashboard.conftest import TARGET

OTHER = {"kind": "llvm", "mcpu": "znver4", "num-cores": 8}
KNOWN, UNKNOWN = f"{1:016x}", "f" * 16


@pytest.fixture
def traffic(engine) -> LookupTraffic:
    return LookupTraffic(engine)


def note(traffic: LookupTraffic, *, target=TARGET, hits: int = 0, missed=None) -> None:
    traffic.note(target_key=key(target), target=target, tvm_version="0.27", hits=hits, missed=missed or {})


def test_replicas_add_to_the_same_hour(engine, traffic):
    other = LookupTraffic(engine)
    note(traffic, hits=3, missed={KNOWN: True, UNKNOWN: False})
    note(other, hits=1, missed={UNKNOWN: False})
    traffic.close()
    other.close()
    with reading(engine) as session:
        (hour,) = traffic_by_hour(session, within_secs=7200)
        missed = most_missed(session, limit=9)
    assert (hour.traffic.hits, hour.traffic.near, hour.traffic.misses, hour.traffic.asked) == (4, 1, 2, 7)
    assert [(each.key.shash, each.count, each.workload_id) for each in missed] == [
        (UNKNOWN, 2, None),
        (KNOWN, 1, None),
    ]


def test_what_has_a_record_by_now_is_missed_no_more(farm, engine, traffic):
    job_id = farm.job()
    note(traffic, missed={KNOWN: False})
    traffic.write()
    with reading(engine) as session:
        assert [each.key for each in most_missed(session, limit=9)] == [
            MissKey(shash=KNOWN, target_key=key(TARGET), tvm_version="0.27")
        ]
    publish(engine, job_id)
    with reading(engine) as session:
        assert most_missed(session, limit=9) == []
    traffic.close()


def test_the_page_tells_the_traffic_and_offers_to_tune_what_it_knows(browse, farm, traffic):
    farm.job(tasks=("dense",))
    note(traffic, target=OTHER, hits=6, missed={KNOWN: True, UNKNOWN: False})
    traffic.close()
    browser = browse()
    page = browser.page("/records")
    assert re.search(r"hits</dt><dd>6 <small>75 %", page)
    assert page.count('data-post="/records/tune"') == 1
    assert "tilefarm submit</code></span>" in page
    assert browser.get("/download/misses.json").json()[0]["count"] == 1
    assert browser.get("/download/lookups.csv").text.count("\n") == 2


def test_tuning_takes_a_known_workload_and_the_right_to_submit(browse, farm, engine, traffic):
    farm.job(tasks=("dense",))
    note(traffic, target=OTHER, missed={KNOWN: False, UNKNOWN: False})
    traffic.close()
    asked = {"shash": UNKNOWN, "target_key": key(OTHER), "tvm_version": "0.27"}
    assert browse().post("/records/tune", {"missed": [asked]}).status_code == 404
    assert browse("alice", read_only=True).post("/records/tune", {"missed": [asked]}).status_code == 403
    with transaction(engine) as session:
        assert len(session.scalars(select(JobRow)).all()) == 1
        assert [task.name for task in session.scalars(select(TaskRow))] == ["dense"]
