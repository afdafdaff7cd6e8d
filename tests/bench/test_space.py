"""Rows of `bench space`: kept by seed, and made into a table. No search, no timing."""

import dataclasses

import pytest

from bench import report_space, space_rows
from bench.space_rows import Rows
from tests.bench.runs import space_row, space_run

NAMES = ("C1D", "SFM")


def test_seeds_add_up_and_a_seed_run_again_replaces_its_row(tmp_path):
    for row in (space_row(), space_row(seed=1), space_row(seed=1, tilefarm=0.5e-3)):
        space_rows.keep(row, directory=tmp_path)
    ((rows,),) = space_rows.kept(NAMES, directory=tmp_path).values()
    assert [row.seed for row in rows.rows] == [0, 1]
    assert rows.rows[1] == space_row(seed=1, tilefarm=0.5e-3)


def test_other_cores_and_trials_are_rows_of_their_own(tmp_path):
    one_core = {"kind": "llvm", "mcpu": "znver4", "num-cores": 1}
    for row in (
        space_row("SFM"),
        space_row(target=one_core),
        space_row(trials=256),
        space_row(),
        space_row("gone"),
    ):
        space_rows.keep(row, directory=tmp_path)
    (found,) = space_rows.kept(NAMES, directory=tmp_path).values()
    assert [(rows.first.workload, rows.first.cores, rows.first.trials) for rows in found] == [
        *(("C1D", 2, 64), ("SFM", 2, 64), ("C1D", 2, 256), ("C1D", 1, 64)),
    ]


def test_cpus_are_not_mixed(tmp_path):
    older = {"kind": "llvm", "mcpu": "znver3", "num-cores": 2}
    for row in (space_row(target=older, tilefarm=4e-3), space_row(), space_row("SFM")):
        space_rows.keep(row, directory=tmp_path)
    found = space_rows.kept(NAMES, directory=tmp_path)
    assert {cpu: [rows.first.workload for rows in kept] for cpu, kept in found.items()} == {
        "znver4": ["C1D", "SFM"],
        "znver3": ["C1D"],
    }
    lines = report_space.summary(found).splitlines()
    assert lines.index("### Spaces on `znver4`") < lines.index("### Spaces on `znver3`")
    assert sum("(0.50, 1)" in line for line in lines) == 1


def test_ratios_are_of_one_seed_each(tmp_path):
    # The second seed met a slow machine: both took three times as long.
    for row in (
        space_row(),
        space_row(seed=1, stock=6e-3, tilefarm=3e-3, libraries={"numpy": None, "torch": 9e-3}),
    ):
        space_rows.keep(row, directory=tmp_path)
    ((rows,),) = space_rows.kept(NAMES, directory=tmp_path).values()
    assert rows.times_as_fast("tilefarm", "stock") == pytest.approx(2.0)
    assert rows.times_as_fast("tilefarm", "torch") == pytest.approx(3.0)
    assert rows.times_as_fast("tilefarm", "numpy") is None
    assert rows.share_of_peak("tilefarm") == pytest.approx((0.5 + 0.5 / 3) / 2)
    assert rows.share_of_copy("tilefarm") == pytest.approx((0.1 + 0.1 / 3) / 2)


def test_a_search_that_went_on_has_no_seconds_of_its_own(tmp_path):
    went_on = {space: dataclasses.replace(run, search_secs=None) for space, run in space_row().runs.items()}
    for row in (space_row(runs=went_on), space_row(trials=256)):
        space_rows.keep(row, directory=tmp_path)
    lines = report_space.summary(space_rows.kept(NAMES, directory=tmp_path))
    assert [line.split(" | ")[-3] for line in lines.splitlines() if "| tilefarm |" in line] == ["–", "4.0"]


def test_of_several_libraries_the_faster_counts_in_each_seed(tmp_path):
    for row in (
        space_row(libraries={"numpy": 4e-3, "torch": 3e-3}),
        space_row(seed=1, libraries={"numpy": 1e-3}),
    ):
        space_rows.keep(row, directory=tmp_path)
    ((rows,),) = space_rows.kept(NAMES, directory=tmp_path).values()
    assert rows.times_as_fast_as_the_better("tilefarm", ("numpy", "torch")) == pytest.approx(2.0)


def test_the_table_has_a_line_for_each_space_and_means_for_each_other_side(tmp_path):
    for row in (space_row(), space_row("SFM", stock=0.5e-3)):
        space_rows.keep(row, directory=tmp_path)
    text = report_space.summary(space_rows.kept(NAMES, directory=tmp_path))
    lines = text.splitlines()
    assert "a CPU, 2 cores; target `kind=llvm, mcpu=znver4, num-cores=2`: 2 rows." in lines
    assert (
        "| C1D | 2 | 64 | 1 | tilefarm | 1000.0 | 100 | 50 | – | 10 | 2.00 | – | – | 3.00 | 4.0 | 20.0 | 4 |"
        in lines
    )
    assert lines[-3:] == [
        "| workloads | cores | trials | × stock | × tune_tir | × numpy | × torch | × the better library |",
        "|---|---|---|---|---|---|---|---|",
        "| suite | 2 | 64 | 1.00 (0.50, 2) | – | – | 3.00 (3.00, 2) | 3.00 (3.00, 2) |",
    ]


def test_means_are_told_of_the_suite_with_and_without_its_extension_and_of_unseen_workloads():
    kept = [
        Rows(rows=(space_row(name, stock=stock),))
        for name, stock in (("C1D", 1e-3), ("PW", 4e-3), ("T2D", 3e-3))
    ]
    lines = report_space.summary({"znver4": kept}).splitlines()
    assert [line.split(" | ")[:4] for line in lines[-4:]] == [
        ["| suite", "2", "64", "1.00 (1.00, 1)"],
        ["| suite and extension", "2", "64", "2.00 (1.00, 2)"],
        ["| unseen", "2", "64", "3.00 (3.00, 1)"],
        ["| all", "2", "64", "2.29 (1.00, 3)"],
    ]


def test_a_share_of_peak_in_quiet_moments_is_of_calls_and_of_the_peak_in_them():
    run = dataclasses.replace(space_run(1e-3), quiet_secs=0.6e-3)
    rows = Rows(rows=(space_row(runs={"tilefarm": run}, quiet_peak_gflops=250.0), space_row(seed=1)))
    assert rows.quiet_share_of_peak("tilefarm") == pytest.approx(2 / 3)
