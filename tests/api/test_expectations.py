"""What tuning would be expected to bring: from similar workloads of exactly the same target, or nothing."""

import pytest
from sqlalchemy import update

from db.session import transaction
from db.tables import SearchRow, WorkloadRow
from db.tuned import Tuned
from services.api.expectation import Known, Work, expect, known
from tests.api.conftest import TARGET, problem
from tests.api.rows import publish

TVM = "0.27.0.post1"
ASKED = "0123456789abcdef"
SQUARE = [{"shape": [256, 256], "dtype": "float32"}] * 3


def tuned(flops: float, untuned_secs: float, tuned_secs: float, args=SQUARE) -> Known:
    (found,) = known([Tuned(flops=flops, args=args, untuned_secs=untuned_secs, tuned_secs=tuned_secs)])
    return found


def test_seconds_are_scaled_by_the_work_and_the_spread_is_told():
    three = [tuned(1e8, 1e-2, 1e-4), tuned(1e8, 2e-2, 4e-4), tuned(1e8, 3e-2, 1e-4)]
    found = expect(Work(flops=2e8, size_bytes=2 * 3 * 256 * 256 * 4), three)
    assert found is not None
    assert (found.untuned_secs, found.tuned_secs) == pytest.approx((4e-2, 2e-4))
    assert (found.least_speedup, found.speedup, found.most_speedup) == pytest.approx((50, 100, 300))
    assert found.similar == 3


def test_what_waits_for_memory_is_not_like_what_computes():
    """An addition and a matmul on the same arguments; and what only copies is like an addition."""
    matmul, add = tuned(2 * 256**3, 1e-1, 1e-3), tuned(256**2, 1e-4, 5e-5)
    size = 3 * 256 * 256 * 4
    assert expect(Work(flops=2 * 256**3, size_bytes=size), [matmul, add]).speedup == pytest.approx(100)
    assert expect(Work(flops=256**2, size_bytes=size), [matmul, add]).speedup == pytest.approx(2)
    assert expect(Work(flops=0, size_bytes=size), [add]).tuned_secs == pytest.approx(5e-5)


def test_where_nothing_is_similar_nothing_is_expected():
    assert expect(Work(flops=1e8, size_bytes=1e6), []) is None
    assert expect(Work(flops=1e14, size_bytes=1e6), [tuned(1e8, 1e-2, 1e-4)]) is None


def test_of_many_only_the_five_most_similar_count():
    many = [tuned(1e8 * 1.1**step, 1e-2, 1e-4 if step < 5 else 1e-5) for step in range(20)]
    found = expect(Work(flops=1e8, size_bytes=3 * 256 * 256 * 4), many)
    assert (found.similar, found.most_speedup) == (5, pytest.approx(100))


def ask(api, **changes):
    work = {"flops": 1e7, "size_bytes": 1e5}
    body = {"target": TARGET, "tvm_version": TVM, "workloads": {ASKED: work}, **changes}
    return api("POST", "/v1/expectations", as_="consumer", json=body)


def test_the_service_answers_by_what_it_has_published(api, engine):
    job = api.submit().json()
    assert ask(api).json()["expectations"] == {}
    publish(engine, job["id"], latency_secs=1e-3)
    publish(engine, job["id"], latency_secs=1e-4)
    publish(engine, job["id"], latency_secs=1e-9, state="quarantined")
    with transaction(engine) as session:
        session.execute(update(SearchRow).values(untuned_latency_secs=5e-3))
        session.execute(update(WorkloadRow).values(flops=1e7))
    found = ask(api).json()["expectations"][ASKED]
    assert (found["speedup"], found["similar"]) == (pytest.approx(50), 1)
    assert found["tuned_secs"] == pytest.approx(1e-4, rel=1e-3)
    assert ask(api, target={**TARGET, "num-cores": 4}).json()["expectations"] == {}
    assert ask(api, tvm_version="0.28.0").json()["expectations"] == {}


def test_bad_questions_are_refused(api):
    many = {f"{n:016x}": {"flops": 1.0, "size_bytes": 1.0} for n in range(1001)}
    assert problem(ask(api, workloads=many), 422)["code"] == "too_many_workloads"
    for bad in ({"flops": -1, "size_bytes": 1}, {"flops": 1}, {"flops": 1e30, "size_bytes": 1}, 7):
        assert problem(ask(api, workloads={ASKED: bad}), 422)
    assert problem(api("POST", "/v1/expectations", as_="bob", json={}), 403)
