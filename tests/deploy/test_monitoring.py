"""Alerts and dashboard ask for metrics and labels that the roles really tell."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml
from prometheus_client import CollectorRegistry, Metric
from sqlalchemy import Engine

from db.session import connect
from db.states import Outcome
from db.tables import Row
from services.api import metrics as api_metrics
from services.api.request_times import RequestTimes
from services.api.routes import lookup
from services.api.settings import ApiSettings
from services.tuning.metrics import TunerMetrics
from tests.deploy.chart import CHART
from workers import metrics as worker_metrics

NAME = re.compile(r"\btilefarm_[a-z_]+")
SELECTOR = re.compile(r"\b(tilefarm_[a-z_]+)\{([^}]*)\}")
MATCHER = re.compile(r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"')
BY = re.compile(r"\bby \(([a-z_, ]+)\) \([^()]*?\(?(tilefarm_[a-z_]+)")
#: What Prometheus itself adds, and a histogram's own.
GIVEN = {"instance", "job", "pod", "le"}
ALERTS = yaml.safe_load((CHART / "monitoring" / "alerts.yaml").read_text(encoding="utf-8"))
RULES: list[dict[str, Any]] = [rule for group in ALERTS["groups"] for rule in group["rules"]]
DOCS = Path(__file__).parents[2] / "docs" / "operations.md"
BOARD = json.loads((CHART / "monitoring" / "dashboard.json").read_text(encoding="utf-8"))
EXPRESSIONS = [rule["expr"] for rule in RULES] + [
    target["expr"] for panel in BOARD["panels"] for target in panel["targets"]
]


@pytest.fixture(scope="module")
def engine(tmp_path_factory) -> Iterator[Engine]:
    made = connect(f"sqlite:///{tmp_path_factory.mktemp('metrics') / 'farm.db'}")
    Row.metadata.create_all(made)
    yield made
    made.dispose()


@pytest.fixture(scope="module")
def told(engine) -> dict[str, set[str]]:
    """Sample name → labels, of the three roles."""
    times = RequestTimes()
    times.observe({"method": "GET", "type": "http"}, status=200, secs=0.1)
    settings = ApiSettings(database_url=str(engine.url), broker_url="redis+socket:///nowhere")
    worker = worker_metrics.WorkerMetrics(stage_secs=lambda: {"build": 1.0}, held=list, quarantined=bool)
    tuner = TunerMetrics(leases=list, stuck_secs=1)
    registries = [
        api_metrics.registry(engine, settings, times),
        worker_metrics.registry(worker),
        tuner.registry,
    ]
    return {name: labels for made in registries for name, labels in samples(made)}


def samples(made: CollectorRegistry) -> Iterator[tuple[str, set[str]]]:
    for family in made.collect():
        labels = set(getattr(family, "_labelnames", ()))
        for sample in family.samples:
            yield sample.name, set(sample.labels)
        if not family.samples:
            yield sample_name(family), labels


def sample_name(family: Metric) -> str:
    return f"{family.name}_total" if family.type == "counter" else family.name


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_an_expression_asks_for_what_there_is(told, expression):
    assert set(NAME.findall(expression)) <= told.keys()
    for name, inside in SELECTOR.findall(expression):
        assert {label for label, _, _ in MATCHER.findall(inside)} <= told[name] | GIVEN, name
    for labels, name in BY.findall(expression):
        assert set(labels.replace(" ", "").split(",")) <= told[name] | GIVEN, name


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_an_expression_is_promql(expression):
    promql_parser.parse(expression)


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_what_every_api_replica_counts_alike_is_never_summed_over_replicas(expression):
    rows = r"tilefarm_(jobs|open_trials|trials_total|records|leases|workers|workers_alive|targets_unserved)\b"
    for found in re.finditer(rf"\bsum\b[^(]*\((?!max by)[^()]*{rows}", expression):
        pytest.fail(f"{found.group()} counts each row once for each replica")


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_outcomes_and_states_in_matchers_exist(expression):
    known = {
        "outcome": set(Outcome),
        "health": {"alive", "stale", "dead"},
        "queue": {"results", "measure"},
        "state": {"queued", "running", "paused", "dispatched", "quarantined", "draining"},
        "route": {route.path for route in lookup.router.routes},
        "status": {"5.."},
    }
    for _, inside in SELECTOR.findall(expression):
        for label, _, value in MATCHER.findall(inside):
            assert set(value.split("|")) <= known[label]


def test_counters_have_total_and_nothing_is_labelled_by_job_or_workload(told):
    forbidden = {"job_id", "workload", "shash", "search", "search_id", "trial", "worker", "path", "target"}
    for name, labels in told.items():
        assert not labels & forbidden, name
        assert not name.endswith(("_ms", "_millis", "_mb"))
    assert "tilefarm_trials_total" in told
    assert "tilefarm_trials" not in told


def test_the_docs_name_every_metric_and_no_other(told):
    table = DOCS.read_text(encoding="utf-8").partition("| metric | labels | of |")[2].partition("\n\n")[0]
    documented = set(NAME.findall(table))
    names = {name for name in told if not name.endswith("_created")}
    assert documented == {re.sub(r"_(bucket|sum|count)$", "", name) for name in names}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_an_alert_says_how_bad_it_is_and_what_to_do(rule):
    assert rule["labels"]["severity"] in ("critical", "warning")
    assert rule["annotations"].keys() == {"summary", "action"}
    assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
    assert re.fullmatch(r"\d+[smh]", rule.get("for", "0s"))


def test_each_panel_has_its_place_and_its_data_source():
    taken: set[tuple[int, int]] = set()
    for panel in BOARD["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert max(x for x, _ in cells) < 24
        assert not cells & taken, panel["title"]
        taken |= cells
        assert all(target["datasource"]["uid"] == "${datasource}" for target in panel["targets"])
    assert [variable["type"] for variable in BOARD["templating"]["list"]] == ["datasource"]
