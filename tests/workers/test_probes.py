"""The port of /metrics, /healthz and /readyz of a worker and of a tuner replica."""

import httpx
import pytest
from prometheus_client import CollectorRegistry

from services.tuning.metrics import TunerMetrics
from workers.errors import ProbesError
from workers.metrics import WorkerMetrics, registry
from workers.probes import Probes


def probes(*, healthy=None, ready=None, made=None, port: int | None = 0) -> Probes:
    return Probes(
        host="127.0.0.1",
        port=port,
        registry=made or CollectorRegistry(),
        healthy=lambda: healthy,
        ready=lambda: ready,
    )


def ask(served: Probes, path: str) -> httpx.Response:
    return httpx.get(f"http://127.0.0.1:{served.port}{path}", timeout=10)


def test_no_port_is_opened_unless_one_is_named():
    with probes(port=None) as served:
        assert served.port is None


def test_each_path_answers_what_the_role_says():
    with probes(ready="the device is in quarantine") as served:
        assert (ask(served, "/healthz").status_code, ask(served, "/healthz").text) == (200, "ok\n")
        assert (ask(served, "/readyz").status_code, ask(served, "/readyz").text) == (
            503,
            "the device is in quarantine\n",
        )
        assert ask(served, "/other").status_code == 404


def test_a_port_that_is_taken_is_an_error_of_ours():
    with probes() as served, pytest.raises(ProbesError, match=f"127.0.0.1:{served.port} cannot be used"):
        probes(port=served.port)


def test_a_worker_tells_its_seconds_by_stage_and_what_it_holds():
    made = registry(
        WorkerMetrics(stage_secs=lambda: {"build": 1.5}, held=lambda: [1, 2], quarantined=lambda: True)
    )
    with probes(made=made) as served:
        lines = ask(served, "/metrics").text.splitlines()
    assert 'tilefarm_worker_stage_seconds_total{stage="build"} 1.5' in lines
    assert "tilefarm_worker_attempts_held 2.0" in lines
    assert "tilefarm_worker_quarantined 1.0" in lines


def test_a_tuner_whose_database_is_away_is_healthy_and_not_ready():
    metrics = TunerMetrics(leases=lambda: [7], stuck_secs=60)
    assert (metrics.healthy(), metrics.ready()) == (None, "the first tick has not ended")
    with metrics.tick():
        pass
    assert (metrics.healthy(), metrics.ready()) == (None, None)
    metrics.database_away()
    assert (metrics.healthy(), metrics.ready()) == (None, "the database does not answer")
    metrics.spent("search", 1.5)
    sample = metrics.registry.get_sample_value
    assert sample("tilefarm_tuner_tick_duration_seconds_count") == 1
    assert sample("tilefarm_tuner_database_away_total") == 1
    assert sample("tilefarm_tuner_leases") == 1
    assert sample("tilefarm_tuner_stage_seconds_total", {"stage": "search"}) == 1.5


def test_a_tuner_whose_loop_hangs_is_not_healthy():
    metrics = TunerMetrics(leases=list, stuck_secs=0)
    assert "the loop has not turned" in str(metrics.healthy())
