"""The command line: what it sends, what it prints, and how it exits."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

import tilefarm
from tests.client.conftest import TARGET, URL, FakeService, MMRelu, problem
from tests.client.test_jobs import answers, stream, view
from tilefarm import module
from tilefarm.cli.main import main

SHASH = module.workload_of(MMRelu).shash
TASK = {
    "id": "t1",
    "name": "mm_relu",
    "workload": SHASH,
    "state": "succeeded",
    "record_id": 4,
    "best_latency_secs": 2e-5,
    "flops": 5e5,
}
PYTHON = """
from tvm.script import ir as I, tirx as T

@I.ir_module
class Double:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
        for i in range(16):
            with T.sblock("B"):
                vi = T.axis.remap("S", [i])
                B[vi] = A[vi] * T.float32(2)

@T.prim_func(s_tir=True)
def triple(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
    for i in range(16):
        with T.sblock("B"):
            vi = T.axis.remap("S", [i])
            B[vi] = A[vi] * T.float32(3)

def halves(sch):
    (i,) = sch.get_loops(sch.get_sblock("B", "main"))
    sch.split(i, sch.sample_perfect_tile(i, n=2))
"""


def run(service: FakeService, *words: str) -> int:
    return main([*words, "--url", URL, "--token", "t"], transport=httpx.MockTransport(service))


@pytest.fixture
def farm(service: FakeService) -> FakeService:
    done = view(5, "succeeded", tasks=[TASK], speedup=4.0)
    service.routes["POST /v1/jobs"] = answers(httpx.Response(201, json=view(1, "queued", tasks=[TASK])))
    service.routes["GET /v1/jobs"] = answers(httpx.Response(200, json={"jobs": [done]}))
    service.routes["GET /v1/jobs/7"] = answers(httpx.Response(200, json=done))
    service.routes["GET /v1/jobs/7/events"] = answers(stream(("end", done)))
    best = {"record": {"record_id": 4}, "trace": [[], []], "trace_python": "sch.get_sblock('Y')"}
    service.routes["GET /v1/tasks/t1/record"] = answers(httpx.Response(200, json=best))
    return service


@pytest.fixture
def module_file(tmp_path: Path) -> Path:
    path = tmp_path / "mm_relu.json"
    path.write_text(module.to_json(MMRelu))
    return path


def test_submit_a_module(farm: FakeService, module_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--target", json.dumps(TARGET), "--max-trials", "9", "--seed", "2", "--priority", "-3")
    assert run(farm, "submit", str(module_file), *words) == 0
    (body,) = farm.bodies()
    assert body.pop("module") == json.loads(module_file.read_text())
    assert body == {"name": "mm_relu", "target": TARGET, "max_trials": 9, "seed": 2, "priority": -3}
    printed = capsys.readouterr().out
    assert "job 7" in printed
    assert SHASH in printed
    assert "tilefarm watch 7" in printed


def test_options_of_a_job_are_named(
    farm: FakeService, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.job.json"
    path.write_text(json.dumps({"module": {"nodes": []}, "options": {"patience": 8, "input_seed": 1}}))
    words = ("--option", "patience=96", "--option", "flush_cache=true", "--option", "isolation_key=mine")
    assert run(farm, "submit", str(path), *words) == 0
    (body,) = farm.bodies()
    assert body["options"] == {"patience": 96, "input_seed": 1, "flush_cache": True, "isolation_key": "mine"}
    with pytest.raises(SystemExit):
        run(farm, "submit", str(path), "--option", "patience")
    assert "'patience' is not NAME=VALUE" in capsys.readouterr().err


def test_submit_a_job_and_watch_it(
    farm: FakeService, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.job.json"
    path.write_text(
        json.dumps({"module": {"nodes": []}, "target": "board", "max_trials": 5, "weights": {"f": 2}})
    )
    assert run(farm, "submit", str(path), "--watch", "--name", "x") == 0
    body = {"module": {"nodes": []}, "target": "board", "max_trials": 5, "weights": {"f": 2}, "name": "x"}
    assert farm.bodies() == [body]
    assert "succeeded" in capsys.readouterr().out


def test_a_space_of_the_service_is_given_by_its_name(farm: FakeService, tmp_path: Path) -> None:
    python, graph = tmp_path / "kernels.py", tmp_path / "graph.json"
    python.write_text(PYTHON)
    graph.write_text('{"nodes": []}')
    for path in (python, graph):
        assert run(farm, "submit", str(path), "--space", "tilefarm") == 0
    assert [(body["space"], "spaces" in body) for body in farm.bodies()] == [("tilefarm", False)] * 2


def test_submit_a_python_file_with_its_space(farm: FakeService, tmp_path: Path) -> None:
    path = tmp_path / "kernels.py"
    path.write_text(PYTHON)
    farm.routes["GET /v1/targets/local"] = answers(httpx.Response(200, json={"target": TARGET}))
    assert run(farm, "submit", str(path), "--function", "Double", "--space", "halves") == 0
    (body,) = farm.bodies()
    sent = module.from_json(json.dumps(body["module"]))
    assert [name for name, _ in module.prim_funcs(sent)] == ["Double"]
    assert str(tmp_path) not in json.dumps(body)
    assert body["spaces"]["Double"]["postprocs"] == []
    assert len(body["spaces"]["Double"]["traces"]) == 1


def test_a_module_with_an_infinity_travels_as_text(farm: FakeService, tmp_path: Path) -> None:
    path = tmp_path / "maximum.json"
    path.write_text('{"root_index": 0, "nodes": [{"type": "float", "data": -Infinity}]}')
    assert run(farm, "submit", str(path)) == 0
    (body,) = farm.bodies()
    assert json.loads(body["module"])["nodes"][0]["data"] == float("-inf")


def test_submit_takes_every_function_of_a_python_file(farm: FakeService, tmp_path: Path) -> None:
    path = tmp_path / "kernels.py"
    path.write_text(PYTHON)
    assert run(farm, "submit", str(path)) == 0
    sent = module.from_json(json.dumps(farm.bodies()[0]["module"]))
    assert [name for name, _ in module.prim_funcs(sent)] == ["Double", "triple"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", ()),
        ("[" * 100_000, ()),
        ('{"module": {"nodes": []}, "weights": {"f": NaN}}', ()),
        ("[]", ()),
        ('{"nodes": []}', ("--function", "f")),
        ('{"nodes": []}', ("--target", "{")),
        ('{"nodes": []}', ("--target", '{"kind": "llvm"}')),
        ('{"nodes": []}', ("--space", "s")),
    ],
)
def test_what_does_not_read_is_a_usage_error(
    farm: FakeService, tmp_path: Path, text: str, words: tuple[str, ...]
) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    assert run(farm, "submit", str(path), *words) == 2
    assert farm.requests == []


def test_a_python_file_that_does_not_run_or_lacks_the_function(
    farm: FakeService, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.py"
    path.write_text("1 / 0")
    assert run(farm, "submit", str(path)) == 2
    assert "ZeroDivisionError" in capsys.readouterr().err
    path.write_text("raise SystemExit(0)")
    assert run(farm, "submit", str(path)) == 2
    assert "SystemExit" in capsys.readouterr().err
    path.write_text(PYTHON)
    assert run(farm, "submit", str(path), "--function", "nope") == 2
    assert "it has Double, triple" in capsys.readouterr().err


def test_a_problem_is_told_with_function_and_cause(
    farm: FakeService, module_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    causes = [{"code": "symbolic_shape", "function": "f", "detail": "n is symbolic"}]
    farm.routes["POST /v1/jobs"] = answers(problem(422, "bad_module", "refused", errors=causes))
    assert run(farm, "submit", str(module_file)) == 4
    assert "f: n is symbolic" in capsys.readouterr().err


def test_a_cause_that_is_the_whole_problem_is_told_once(
    farm: FakeService, module_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    causes = [{"code": "unknown_target", "function": None, "detail": "there is no profile 'x'"}]
    refusal = problem(422, "unknown_target", "there is no profile 'x'", errors=causes)
    farm.routes["POST /v1/jobs"] = answers(refusal)
    assert run(farm, "submit", str(module_file)) == 4
    assert capsys.readouterr().err.count("there is no profile 'x'") == 1


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (httpx.ConnectError("refused"), 3),
        (httpx.ReadTimeout("slow"), 3),
        (problem(401, "unauthorized", "no"), 4),
        (problem(404, "not_found", "no job 7"), 4),
        (httpx.Response(200, text="<html>"), 6),
    ],
)
def test_exit_codes_tell_causes_apart(farm: FakeService, answer: Any, code: int) -> None:
    farm.routes["GET /v1/jobs/7"] = answers(answer)
    assert run(farm, "show", "7") == code


def test_no_service_named_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 2
    assert "tilefarm-server up" in capsys.readouterr().err


@pytest.mark.parametrize(("state", "code"), [("succeeded", 0), ("failed", 1), ("cancelled", 1)])
def test_watch_ends_as_the_job_ended(farm: FakeService, state: str, code: int) -> None:
    ended = view(6, state)
    farm.routes["GET /v1/jobs/7"] = answers(httpx.Response(200, json=ended))
    farm.routes["GET /v1/jobs/7/events"] = answers(stream(("end", ended)))
    assert run(farm, "watch", "7") == code


def test_watch_as_json_is_a_line_for_each_snapshot(
    farm: FakeService, capsys: pytest.CaptureFixture[str]
) -> None:
    farm.routes["GET /v1/jobs/7/events"] = answers(stream(("job", view(2)), ("end", view(5, "succeeded"))))
    assert run(farm, "watch", "7", "-o", "json") == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["revision"] for line in lines] == [2, 5]


def test_list_shows_jobs_workers_and_targets(farm: FakeService, capsys: pytest.CaptureFixture[str]) -> None:
    worker = {"name": "w1", "state": "alive", "role": "measure", "device_class": "zen", "host": "h"}
    farm.routes["GET /v1/workers"] = answers(httpx.Response(200, json={"workers": [worker]}))
    target = {"name": "local", "target": TARGET, "workers_alive": 1}
    farm.routes["GET /v1/targets"] = answers(httpx.Response(200, json={"targets": [target]}))
    assert run(farm, "list") == 0
    assert "4.00x" in capsys.readouterr().out
    assert run(farm, "list", "workers") == 0
    assert "w1" in capsys.readouterr().out
    assert run(farm, "list", "targets") == 0
    assert "num-cores=2" in capsys.readouterr().out
    assert run(farm, "list", "workers", "-o", "json") == 0
    assert json.loads(capsys.readouterr().out) == [worker]


def test_show_and_best(farm: FakeService, capsys: pytest.CaptureFixture[str]) -> None:
    spent = view(
        5, "succeeded", tasks=[TASK], outcomes={"ok": 3, "run_error": 1}, stage_secs={"build": 1.24, "run": 9}
    )
    farm.routes["GET /v1/jobs/7"] = answers(httpx.Response(200, json=spent))
    assert run(farm, "show", "7") == 0
    shown = capsys.readouterr().out
    assert "20 µs" in shown
    assert "outcomes: ok 3, run_error 1\n" in shown
    assert "seconds went into: run 9.0 s, build 1.2 s\n" in shown
    assert run(farm, "best", "7") == 0
    assert "sch.get_sblock('Y')" in capsys.readouterr().out
    farm.routes["GET /v1/jobs/7"] = answers(
        httpx.Response(200, json=view(1, tasks=[{**TASK, "record_id": None}]))
    )
    assert run(farm, "best", "7") == 5


def test_cancel_says_what_will_be(farm: FakeService, capsys: pytest.CaptureFixture[str]) -> None:
    farm.routes["POST /v1/jobs/7:cancel"] = answers(
        httpx.Response(200, json=view(6, desired_state="cancelled"))
    )
    assert run(farm, "cancel", "7") == 0
    assert "to be cancelled" in capsys.readouterr().out


def test_continue_makes_a_new_job_of_one_that_has_ended(
    farm: FakeService, capsys: pytest.CaptureFixture[str]
) -> None:
    made = {**view(1, "queued", tasks=[TASK]), "id": "8", "warnings": [{"code": "no_worker"}]}
    farm.routes["POST /v1/jobs/7:continue"] = answers(httpx.Response(201, json=made))
    farm.routes["GET /v1/jobs/8/events"] = answers(stream(("end", {**made, "state": "succeeded"})))
    farm.routes["GET /v1/jobs/8"] = answers(httpx.Response(200, json={**made, "state": "succeeded"}))
    words = ("continue", "7", "--max-trials", "64", "--idempotency-key", "again-1")
    assert run(farm, *words) == 0
    printed = capsys.readouterr()
    assert "tilefarm watch 8" in printed.out
    assert "no_worker" in printed.err
    assert run(farm, *words, "--watch") == 0
    assert farm.bodies() == [{"max_trials": 64}] * 2
    sent = [request for request in farm.requests if request.method == "POST"]
    assert {request.headers["Idempotency-Key"] for request in sent} == {"again-1"}
    with pytest.raises(SystemExit):
        run(farm, "continue", "7")


def test_lookup_tells_hit_and_miss(
    farm: FakeService, module_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(farm, "lookup", str(module_file), "--target", json.dumps(TARGET)) == 0
    assert SHASH in capsys.readouterr().out
    other = json.dumps({**TARGET, "num-cores": 4})
    assert run(farm, "lookup", str(module_file), "--target", other, "-o", "json") == 5
    answer = json.loads(capsys.readouterr().out)
    assert answer["functions"] == {"mm_relu": SHASH}
    assert answer["missing"][0]["nearest"] == "the same on 4 cores"


def test_a_worker_that_tells_nonsense_of_itself_is_listed(
    farm: FakeService, capsys: pytest.CaptureFixture[str]
) -> None:
    workers = [{"name": "board", "health": "alive", "facts": {"selftest": "fast"}}]
    farm.routes["GET /v1/workers"] = answers(httpx.Response(200, json={"workers": workers}))
    assert run(farm, "list", "workers") == 0
    assert "board" in capsys.readouterr().out


@pytest.mark.parametrize("limit", ["0", "-1", "many"])
def test_a_limit_that_is_none_is_a_usage_error(farm: FakeService, limit: str) -> None:
    with pytest.raises(SystemExit) as ended:
        run(farm, "imports", "--limit", limit)
    assert ended.value.code == 2


def test_a_target_of_the_old_command_line_form_is_told_how_it_is_written_now(
    farm: FakeService, module_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(farm, "lookup", str(module_file), "--target", "llvm -mcpu=znver4 -num-cores=2") == 2
    assert '"num-cores"' in capsys.readouterr().err


def test_python_dash_m_works_and_nothing_imports_tvm_before_it_is_needed() -> None:
    code = (
        "import sys, tilefarm, tilefarm.cli.main; tilefarm.Client('http://127.0.0.1:9');"
        "print([name for name in sys.modules if name.split('.')[0] in ('tvm', 'tvm_ffi', 'numpy', 'httpx')])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
    helped = subprocess.run(
        [sys.executable, "-m", "tilefarm", "--help"], capture_output=True, text=True, check=True
    )
    assert "exit codes" in helped.stdout


def test_a_module_is_read_by_a_process_that_had_not_loaded_tvm(module_file: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from tilefarm import module;"
        "print(module.workload_of(module.from_json(Path(sys.argv[1]).read_text())).shash)"
    )
    command = [sys.executable, "-c", code, str(module_file)]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == SHASH


def test_the_public_surface_is_what_all_names() -> None:
    for name in tilefarm.__all__:
        assert getattr(tilefarm, name) is not None
    errors = {error for error in vars(tilefarm.errors).values() if isinstance(error, type)}
    exported = {getattr(tilefarm, name) for name in tilefarm.__all__}
    assert {e for e in errors if issubclass(e, Exception)} <= exported
    assert all(issubclass(e, tilefarm.TilefarmError) for e in errors if issubclass(e, Exception))
