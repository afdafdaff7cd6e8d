"""Figures of a comparison, and the tables and pictures made of them."""

import dataclasses
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from bench import pairs, plot, report_versus, versus
from bench.comparison import Comparison, cpu_secs, final_secs, wall_secs
from tests.bench.runs import a_pair, a_run, judged


@pytest.fixture
def compared() -> Comparison:
    """Ours takes a quarter of the time; its second seed ends slower and never gets to stock's best."""
    second = judged(
        a_run("ours", seed=1, wall_secs=35.0, cpu_secs=50.0),
        final_secs=1.5e-3,
        careful=(4e-3, 2e-3, 1.6e-3),
    )
    return Comparison(
        pairs=(
            a_pair(
                judged(a_run("stock", seed=0, wall_secs=100.0), final_secs=1.0e-3),
                judged(a_run("ours", seed=0, wall_secs=25.0, cpu_secs=50.0), final_secs=1.0e-3),
            ),
            a_pair(judged(a_run("stock", seed=1, wall_secs=140.0), final_secs=1.2e-3), second),
        )
    )


def test_a_ratio_is_the_median_of_the_pairs_ratios(compared: Comparison):
    """Not that of the medians: two pairs may be of two machines, one twice as fast."""
    assert compared.ratio(wall_secs) == pytest.approx(4.0)
    assert compared.ratio(cpu_secs) == pytest.approx(150.0 / 50.0)
    assert compared.ratio(final_secs) == pytest.approx((1.0 + 0.8) / 2)
    assert compared.spread(final_secs) == pytest.approx((0.8, 1.0))


def test_time_to_quality_asks_the_careful_curve_and_each_seed_its_own_stock_run(compared: Comparison):
    assert compared.secs_to("stock", 1.0) == pytest.approx(40.0)
    assert compared.trials_to("stock", 0.5) == pytest.approx(16.0)
    assert [point is not None for point in compared.reached("ours", 1.0)] == [True, False]
    assert compared.secs_to("ours", 1.0) is None


def test_a_seed_that_never_gets_there_counts_against_us(compared: Comparison):
    assert compared.ratio_to(1.0) == pytest.approx((40.0 / 40.0 + 0.0) / 2)


def test_what_was_published_counts_from_the_end_of_the_run(compared: Comparison):
    stock = compared.of("stock")[0]
    assert (stock.curve[-1].secs, stock.curve[-1].latency_secs) == (100.0, 1.0e-3)


def test_kept_pairs_add_up_by_seed_without_their_traces(compared: Comparison, tmp_path: Path):
    for pair in reversed(compared.pairs):
        pairs.keep(pair, directory=tmp_path)
    (kept,) = pairs.comparisons(["SFM", "GMM-512"], directory=tmp_path).values()
    assert kept == [Comparison(pairs=tuple(pair.without_traces() for pair in compared.pairs))]
    assert kept[0].ratio(wall_secs) == compared.ratio(wall_secs)
    assert all('["trace"]' not in path.read_text() for path in tmp_path.iterdir())


def test_what_is_kept_becomes_a_table_and_a_picture_of_both_sides(
    compared: Comparison, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").mkdir()
    for pair in compared.pairs:
        pairs.keep(pair)
    versus.publish()
    document = (tmp_path / "docs" / "benchmarks.md").read_text()
    assert "<!-- stock -->" in document
    assert "| GMM-512 | 64 | 2 | 120.0 | 30.0 | **4.00** |" in document
    assert "(benchmarks/GMM-512.svg)" in document
    assert "tilefarm" in (tmp_path / "docs" / "benchmarks" / "GMM-512.svg").read_text()
    kept = sorted(path.name for path in (tmp_path / "docs" / "benchmarks" / "pairs").iterdir())
    assert len(kept) == 2
    assert all(name.endswith(f"-{seed}.json") for seed, name in enumerate(kept))


def test_a_pair_of_fewer_trials_is_not_mixed_in(compared: Comparison, tmp_path: Path):
    first, second = compared.pairs
    pairs.keep(first, directory=tmp_path)
    pairs.keep(dataclasses.replace(second, trials=256), directory=tmp_path)
    ((kept,),) = pairs.comparisons(["GMM-512"], directory=tmp_path).values()
    assert [pair.seed for pair in kept.pairs] == [1]


def test_a_seed_on_another_target_is_a_pair_of_its_own(compared: Comparison, tmp_path: Path):
    first, second = compared.pairs
    elsewhere = dataclasses.replace(first, target={**first.target, "mcpu": "znver3"})
    for pair in (elsewhere, first, second):
        pairs.keep(pair, directory=tmp_path)
    kept = pairs.comparisons(["GMM-512"], directory=tmp_path)
    assert [[len(each.pairs) for each in found] for found in kept.values()] == [[2], [1]]
    assert "mcpu=znver3" in list(kept)[1]


def test_the_tables_say_how_much_faster_and_what_was_not_reached(compared: Comparison):
    text = report_versus.tables([compared])
    assert "| GMM-512 | 64 | 2 | 120.0 | 30.0 | **4.00** |" in text
    assert "wall-clock 4.00×" in text
    assert "1100.0 | 1250.0 | **0.900** (0.80–1.00) |" in text
    assert "–, 1 of 2 seeds" in text


def test_the_tables_name_each_machine_and_stock_runs_of_another_hour(compared: Comparison):
    first, second = compared.pairs
    elsewhere = dataclasses.replace(second, machine="another CPU, 2 cores", stock_cached=True)
    text = report_versus.tables([Comparison(pairs=(first, elsewhere))])
    assert "a CPU, 2 cores; target `kind=llvm, mcpu=x86-64-v4, num-cores=2`: 1 pair." in text
    assert "another CPU, 2 cores; target" in text
    assert "In 1 of 2 pairs stock's run is of an earlier hour" in text


def test_the_picture_is_an_svg_with_a_line_for_each_run(compared: Comparison):
    root = ET.fromstring(plot.best_so_far(compared))
    space = "{http://www.w3.org/2000/svg}"
    assert len(root.findall(f"{space}path")) == 4
    words = [element.text for element in root.findall(f"{space}text")]
    assert "stock's best, median: 1,100 µs" in words
    assert {"stock ms.tune_tir", "tilefarm"} <= set(words)
