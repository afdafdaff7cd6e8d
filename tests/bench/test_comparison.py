"""Figures of a comparison, and the tables and pictures made of them."""

import json
import xml.etree.ElementTree as ET

import pytest

from bench import plot, report_versus
from bench.comparison import Comparison, cpu_secs, final_secs, wall_secs
from bench.stock import Check
from tests.bench.runs import a_comparison, a_run, judged


@pytest.fixture
def compared() -> Comparison:
    """Ours takes a quarter of the time and is 10 % faster in the end; one seed of ours never gets there."""
    return a_comparison(
        judged(a_run("stock", seed=0, wall_secs=100.0), final_secs=1.0e-3),
        judged(a_run("stock", seed=1, wall_secs=140.0), final_secs=1.2e-3),
        judged(a_run("ours", seed=0, wall_secs=25.0, cpu_secs=50.0), final_secs=1.0e-3),
        judged(
            a_run("ours", seed=1, wall_secs=35.0, cpu_secs=50.0),
            final_secs=1.5e-3,
            careful=(4e-3, 2e-3, 1.6e-3),
        ),
    )


def test_ratios_are_of_the_medians_over_the_seeds(compared: Comparison):
    assert compared.ratio(wall_secs) == pytest.approx(120.0 / 30.0)
    assert compared.ratio(cpu_secs) == pytest.approx(150.0 / 50.0)
    assert compared.ratio(final_secs) == pytest.approx(1.1 / 1.25)
    assert compared.spread("ours", final_secs) == (1.0e-3, 1.5e-3)


def test_time_to_quality_asks_the_careful_curve(compared: Comparison):
    assert compared.limit_secs(1.0) == pytest.approx(1.1e-3)
    assert compared.secs_to("stock", 1.0) == pytest.approx(40.0)
    assert compared.trials_to("stock", 0.5) == pytest.approx(16.0)
    assert [point is not None for point in compared.reached("ours", 1.0)] == [True, False]
    assert compared.secs_to("ours", 1.0) is None


def test_what_was_published_counts_from_the_end_of_the_run(compared: Comparison):
    stock = compared.of("stock")[0]
    assert (stock.curve[-1].secs, stock.curve[-1].latency_secs) == (100.0, 1.0e-3)


def test_a_comparison_survives_its_file(compared: Comparison):
    assert Comparison.from_json(json.loads(json.dumps(compared.as_json()))) == compared


def test_the_tables_say_how_much_faster_and_what_was_not_reached(compared: Comparison):
    text = report_versus.tables([compared], [])
    assert "| GMM-512 | 64 | 2 | 120.0 | 30.0 | **4.00** |" in text
    assert "wall-clock 4.00×" in text
    assert "1100.0 (1000.0–1200.0) | 1250.0 (1000.0–1500.0) | **0.880** |" in text
    assert "–, 1 of 2 seeds" in text


def test_a_cached_run_that_no_longer_holds_is_named(compared: Comparison):
    checks = [
        Check(workload="GMM-512", trials=64, cached_secs=50.0, now_secs=55.0),
        Check(workload="SFM", trials=64, cached_secs=50.0, now_secs=80.0),
    ]
    assert [check.holds for check in checks] == [True, False]
    text = report_versus.tables([compared], checks)
    assert "cached GMM-512: 64 trials took 50.0 s then and 55.0 s now; it still holds" in text
    assert "cached SFM: 64 trials took 50.0 s then and 80.0 s now; it **does not hold" in text


def test_the_picture_is_an_svg_with_a_line_for_each_run(compared: Comparison):
    root = ET.fromstring(plot.best_so_far(compared))
    space = "{http://www.w3.org/2000/svg}"
    assert len(root.findall(f"{space}path")) == 4
    words = [element.text for element in root.findall(f"{space}text")]
    assert "stock's best, median: 1,100 µs" in words
    assert {"stock ms.tune_tir", "tilefarm"} <= set(words)
