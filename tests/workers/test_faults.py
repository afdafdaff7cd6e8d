"""Candidates that crash, hang, hoard or lie: each is an Outcome with its reason, and harms nobody else."""

from pathlib import Path

import pytest

from db.states import Outcome
from tests.workers.conftest import EMPTY_TRACE, INT32, INT64, place_reference

FLOATS = (("A", "float32"), ("B", "float32"))
#: Module, its parameters, outcome, and what its reason says.
FAULTS = {
    "crash": (INT32, Outcome.RUN_ERROR, "SIGSEGV"),
    "aborts": (INT64, Outcome.RUN_ERROR, "SIGABRT"),
    "illegal": (INT64, Outcome.RUN_ERROR, "SIGILL"),
    "exits": (INT64, Outcome.RUN_ERROR, "exit code 7"),
    "unknown_symbol": (INT64, Outcome.RUN_ERROR, "tilefarm_no_such_function"),
    "hog": (INT64, Outcome.RUN_ERROR, "bad_alloc"),
    "not_a_number": (FLOATS, Outcome.WRONG_OUTPUT, "16 are NaN"),
    "endless": (INT64, Outcome.RUN_TIMEOUT, "more than 0.5 s"),
    "forks": (INT64, Outcome.OK, None),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_an_outcome_and_leaves_nothing_behind(bench, authored, children_dir, name):
    parameters, outcome, reason = FAULTS[name]
    place_reference(bench, authored[name], parameters)
    (bad,) = bench.measure(authored[name], EMPTY_TRACE, run_timeout_secs=0.5 if name == "endless" else 10.0)
    assert bad.outcome == outcome, bad.error
    assert (bad.error is None) if reason is None else (reason in bad.error)
    assert left_over(bench, children_dir) == []
    (good,) = bench.measure(authored["scale"], EMPTY_TRACE)
    assert good.outcome == Outcome.OK, good.error
    assert bench.holding.held() == []


@pytest.mark.parametrize(
    ("schedule", "outcome", "reason"),
    [
        ("mm_wrong", Outcome.WRONG_OUTPUT, "output 'C' is "),
        ("mm_unrolled", Outcome.BUILD_TIMEOUT, "more than 1 s"),
    ],
)
def test_a_schedule_that_computes_another_thing_or_never_builds_leaves_nothing_behind(
    bench, authored, children_dir, schedule, outcome, reason
):
    (bad,) = bench.measure(authored["mm"], authored[schedule], build_timeout_secs=1.0)
    assert bad.outcome == outcome
    assert reason in bad.error
    assert left_over(bench, children_dir) == []
    (good,) = bench.measure(authored["mm"], authored["mm_tiled"])
    assert good.outcome == Outcome.OK, good.error
    assert bench.holding.held() == []


def test_a_library_that_does_not_load_is_a_build_error(bench, authored, children_dir):
    linker = bench.directory / "ld"
    linker.write_text("#!/bin/sh\necho 'no library' > \"$3\"\n")
    linker.chmod(0o755)
    working, bench.linker = bench.linker, str(linker)
    bench.server.start()
    place_reference(bench, authored["endless"], INT64)
    (bad,) = bench.measure(authored["endless"], EMPTY_TRACE)
    assert bad.outcome == Outcome.BUILD_ERROR
    assert "kernel.so" in bad.error
    assert left_over(bench, children_dir) == []
    bench.linker = working
    assert bench.measure(authored["scale"], EMPTY_TRACE)[0].outcome == Outcome.OK


def test_a_linker_that_fails_is_a_build_error_with_what_it_said(bench, authored):
    linker = bench.directory / "ld"
    linker.write_text("#!/bin/sh\necho 'no space left' >&2\nexit 3\n")
    linker.chmod(0o755)
    bench.linker = str(linker)
    place_reference(bench, authored["endless"], INT64)
    (bad,) = bench.measure(authored["endless"], EMPTY_TRACE)
    assert bad.outcome == Outcome.BUILD_ERROR
    assert "ld ended with 3: no space left" in bad.error


def test_memory_stays_flat_over_many_candidates(bench, authored):
    """The fork server's, which every child shares, and this process's, which is the worker's here."""
    traces = [EMPTY_TRACE, *["junk"] * 9] * 10
    bench.measure(authored["scale"], *traces)
    before = {"worker": resident_bytes("self"), "fork server": resident_bytes(bench.server.pid)}
    for _ in range(2):
        outcomes = bench.measure(authored["scale"], *traces)
    assert [outcome.outcome for outcome in outcomes[:10]] == [Outcome.OK, *[Outcome.REJECTED] * 9]
    grown = {
        "worker": resident_bytes("self") - before["worker"],
        "fork server": resident_bytes(bench.server.pid) - before["fork server"],
    }
    assert {name: size for name, size in grown.items() if size > 3 << 20} == {}


def left_over(bench, children_dir: Path) -> list[str]:
    """Processes below the fork server, and files of its children."""
    pid = bench.server.pid
    processes = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return processes + [str(path) for path in children_dir.iterdir()]


def resident_bytes(pid: object) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (kib,) = [line.split()[1] for line in lines if line.startswith("VmRSS:")]
    return int(kib) << 10
