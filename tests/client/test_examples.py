"""The examples that a README shows: the ready job is the classroom's, and the demo fails loudly."""

import json
from pathlib import Path

import pytest
import tvm
from tvm.target import Target

from examples import compare, demo, make_jobs
from examples.classroom import modules
from services.server.launch import Launched, LaunchError
from tests.client.conftest import TARGET
from tilefarm import module

EXAMPLES = Path(demo.__file__).parent


def test_the_ready_job_is_the_classrooms_and_names_no_file() -> None:
    text = (EXAMPLES / "mm_relu.job.json").read_text()
    body = json.loads(text)
    assert "/" not in text
    assert {name: body[name] for name in ("name", "target", "max_trials")} == {
        "name": "mm_relu",
        "target": "local",
        "max_trials": 64,
    }
    sent = module.from_json(json.dumps(body["module"]))
    assert module.equal(sent, modules()["mm_relu"])
    assert json.loads((EXAMPLES / "mm_relu.module.json").read_text()) == body["module"]
    assert make_jobs.job() == body


def test_comparing_runs_in_turns_without_a_linker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(compare, "_ROUNDS", 2)
    monkeypatch.setattr(compare, "_ROUND_MS", 2)
    rows = compare.compare({"untuned": modules()["mm_relu"]}, Target(TARGET))
    assert [row.name for row in rows] == ["untuned", "numpy"]
    assert all(0 < row.latency_secs < 1 for row in rows)
    assert rows[0].gflops == pytest.approx(compare.FLOPS / rows[0].latency_secs / 1e9)


def test_comparing_refuses_wrong_numbers() -> None:
    negated = tvm.IRModule({"main": modules()["mm_relu"]["main"]})
    text = module.to_json(negated).replace('"prim.Max"', '"prim.Min"')
    with pytest.raises(compare.WrongNumbersError, match="wrong function disagrees"):
        compare.compare({"wrong": tvm.ir.load_json(text)}, Target(TARGET))


def test_the_table_has_latency_gflops_and_speedup(capsys: pytest.CaptureFixture[str]) -> None:
    demo._print_table(
        [compare.Row(name="untuned", latency_secs=1e-3), compare.Row(name="tuned", latency_secs=2e-5)]
    )
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1].split() == ["tuned", "20.0", "210.5", "50.0x"]


def test_the_demo_says_why_it_failed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(data_dir: Path) -> Launched:
        raise LaunchError(f"the service did not come up ({data_dir.name})")

    monkeypatch.setattr(demo, "launch", broken)
    monkeypatch.setattr(demo.signal, "signal", lambda *_: None)
    assert demo.main([]) == 1
    assert "the demo failed: the service did not come up (data)" in capsys.readouterr().err
