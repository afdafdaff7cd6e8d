"""TVM and tvm-ffi that crash together are refused before their import; unknown pairs are tried in a child."""

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import tilefarm
from tests.client.conftest import TARGET, URL, FakeService, MMRelu, database
from tests.client.test_database import compiled
from tilefarm import module, pairs, saving
from tilefarm.cli.exits import Exit
from tilefarm.cli.main import main

NEW = ("0.28.0", "0.2.0")


def test_a_pair_that_is_known_to_crash_is_refused_by_connect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairs, "installed", lambda: ("0.27.0.post1", "0.1.15.post2"))
    with pytest.raises(tilefarm.TvmPairError, match=r"apache-tvm-ffi==0\.1\.14\.post1"):
        tilefarm.connect(URL)


def test_it_is_refused_wherever_tvm_would_be_imported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(pairs, "installed", lambda: ("0.27.0.post1", "0.1.15.post2"))
    monkeypatch.setattr(pairs, "is_tested", lambda: False)
    with pytest.raises(tilefarm.TvmPairError):
        tilefarm.tune_tir(MMRelu, TARGET, str(tmp_path), 8, url=URL)
    with pytest.raises(tilefarm.TvmPairError):
        tilefarm.tune_relax(MMRelu, None, TARGET, str(tmp_path), 8, url=URL)
    source = tmp_path / "kernels.py"
    source.write_text("raise SystemExit('it was run')")
    assert main(["submit", str(source), "--url", URL]) == Exit.USAGE


def test_a_module_is_saved_in_a_child_where_the_pair_was_not_tested(monkeypatch: pytest.MonkeyPatch) -> None:
    mod = module.workload_of(MMRelu).module
    assert saving.in_child(mod) == saving.raw_json(mod) == module.to_raw_json(mod)
    here = os.getpid()

    def dies(_: object) -> str:
        assert os.getpid() != here, "it is this process that would have died"
        os.kill(os.getpid(), signal.SIGKILL)
        return ""

    monkeypatch.setattr(module, "to_raw_json", dies)
    monkeypatch.setattr(pairs, "is_tested", lambda: False)
    with pytest.raises(tilefarm.ModuleError, match="signal 9"):
        saving.raw_json(mod)
    monkeypatch.setattr(saving, "_CHILD_SECS", 0.05)
    monkeypatch.setattr(module, "to_raw_json", lambda _: time.sleep(60))
    with pytest.raises(tilefarm.ModuleError, match=r"within 0\.05 s"):
        saving.raw_json(mod)


@pytest.mark.parametrize("on_miss", ["warn", "submit"])
def test_a_compile_survives_a_tvm_that_dies_over_what_was_missed(
    service: FakeService, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, on_miss: Any
) -> None:
    service.records.clear()
    monkeypatch.setattr(pairs, "is_tested", lambda: False)
    monkeypatch.setattr(module, "to_raw_json", lambda _: os.kill(os.getpid(), signal.SIGKILL))
    db = database(service, on_miss=on_miss)
    assert compiled(db) is None
    db.close()
    assert db.stats().misses == 1
    assert "cannot be kept or sent" in caplog.text
    assert [request.url.path for request in service.requests] == ["/v1/lookup"]


def test_what_the_tests_run_on_is_known_to_be_good(tmp_path: Path) -> None:
    pairs.require_safe(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("trial", "said"),
    [
        ("pass", None),
        ("import os; os.kill(os.getpid(), 11)", "signal 11"),
        ("raise SystemExit(3)", "exit code 3"),
    ],
)
def test_an_unknown_pair_is_tried_once_in_a_child(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trial: str, said: str | None
) -> None:
    monkeypatch.setattr(pairs, "_TRIAL", trial)
    for _ in range(2):
        if said is None:
            pairs.require_safe(tmp_path, pair=NEW)
        else:
            with pytest.raises(tilefarm.TvmPairError, match=said):
                pairs.require_safe(tmp_path, pair=NEW)
        # The second time nothing is started.
        monkeypatch.setattr(sys, "executable", "/nowhere")


def test_the_trial_itself_passes_on_this_pair(tmp_path: Path) -> None:
    pairs.require_safe(tmp_path, pair=NEW)
    assert (tmp_path / "tvm-pairs" / "0.28.0-0.2.0").read_text() == "ok"
