"""TVM and tvm-ffi that crash together are refused before their import; unknown pairs are tried in a child."""

import sys
from pathlib import Path

import pytest

import tilefarm
from tests.client.conftest import URL
from tilefarm import pairs

NEW = ("0.28.0", "0.2.0")


def test_a_pair_that_is_known_to_crash_is_refused_by_connect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairs, "installed", lambda: ("0.27.0.post1", "0.1.15.post2"))
    with pytest.raises(tilefarm.TvmPairError, match=r"apache-tvm-ffi==0\.1\.14\.post1"):
        tilefarm.connect(URL)


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
