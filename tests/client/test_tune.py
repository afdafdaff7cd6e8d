"""tune_tir: stock's arguments, what travels and what is refused by name, and the Database that comes back."""

import inspect
import io
import json
from pathlib import Path
from typing import Any

import httpx
import pytest
import tvm
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.meta_schedule.mutator import MutateParallel
from tvm.s_tir.meta_schedule.postproc import PyPostproc, RewriteReductionBlock
from tvm.s_tir.meta_schedule.space_generator import ScheduleFn

import tilefarm
from tests.client.conftest import TARGET, URL, FakeService, MMRelu, renamed, space
from tests.client.test_jobs import answers, stream, view
from tilefarm.progress import ProgressLine, describe, latency_text


@pytest.fixture
def farm(service: FakeService) -> FakeService:
    """It takes any job and has finished it at once."""
    done = view(5, "succeeded", weighted_latency_secs=2e-5, speedup=4.0, outcomes={"ok": 8, "build_error": 1})
    service.routes["POST /v1/jobs"] = answers(httpx.Response(201, json=view(1, "queued")))
    service.routes["GET /v1/jobs/7/events"] = answers(stream(("job", view(2)), ("end", done)))
    service.routes["GET /v1/jobs/7"] = answers(httpx.Response(200, json=done))
    service.routes["GET /v1/targets/local"] = answers(
        httpx.Response(200, json={"name": "local", "target": TARGET, "key": "", "workers_alive": 1})
    )
    return service


def tune(service: FakeService, work_dir: Path, *arguments: Any, **options: Any) -> Any:
    mod, target, trials = arguments or (MMRelu, tvm.target.Target(TARGET), 8)
    transport = httpx.MockTransport(service)
    return tilefarm.tune_tir(mod, target, str(work_dir), trials, url=URL, transport=transport, **options)


def submitted(service: FakeService) -> dict[str, Any]:
    (body,) = [
        json.loads(request.content)
        for request in service.requests
        if (request.method, request.url.path) == ("POST", "/v1/jobs")
    ]
    return dict(body)


def test_its_arguments_are_stocks_in_stocks_order() -> None:
    stock = inspect.signature(ms.tune_tir).parameters
    ours = inspect.signature(tilefarm.tune_tir).parameters
    assert list(ours)[: len(stock)] == list(stock)
    for name, parameter in stock.items():
        assert ours[name].kind == parameter.kind, name
        assert ours[name].default == parameter.default, name


def test_it_tunes_on_the_service_and_returns_its_database(
    farm: FakeService, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    db = tune(
        farm,
        tmp_path,
        max_trials_per_task=4,
        num_trials_per_iter=16,
        seed=3,
        priority=5,
        name="n",
        options={"patience": 96},
    )
    assert "T.parallel" in ms.tir_integration.compile_tir(db, MMRelu, tvm.target.Target(TARGET)).mod.script()
    body = submitted(farm)
    module_json = body.pop("module")
    assert "/" not in json.dumps(module_json)
    assert body == {
        "target": TARGET,
        "max_trials": 8,
        "max_trials_per_task": 4,
        "priority": 5,
        "name": "n",
        "seed": 3,
        "strategy": "evolutionary",
        "options": {"batch_size": 16, "patience": 96},
    }
    assert "succeeded" in capsys.readouterr().err
    log = (tmp_path / "logs" / "tilefarm.log").read_text()
    assert "job 7" in log
    assert "4.0x untuned" in log


def test_a_profile_name_travels_as_it_is(farm: FakeService, tmp_path: Path) -> None:
    tune(farm, tmp_path, MMRelu, "local", 8)
    assert submitted(farm)["target"] == "local"


@pytest.mark.parametrize("name", ["stock", "tilefarm"])
def test_a_space_of_the_service_travels_by_its_name(farm: FakeService, tmp_path: Path, name: str) -> None:
    tune(farm, tmp_path, space=name, special_space={"other": space})
    body = submitted(farm)
    assert body["space"] == name
    assert "spaces" not in body


def test_a_plain_callable_travels_as_traces_without_postprocs_and_mutators(
    farm: FakeService, tmp_path: Path
) -> None:
    tune(farm, tmp_path, space=space)
    (found,) = submitted(farm)["spaces"].values()
    assert (found["postprocs"], found["mutators"]) == ([], {})
    (trace,) = found["traces"]
    assert [step[0] for step in trace[0]].count("SamplePerfectTile") == 1
    fresh = tilefarm.module.copy_of(tilefarm.module.workload_of(MMRelu).module)
    schedule = tvm.s_tir.Schedule(fresh)
    tvm.s_tir.Trace.apply_json_to_schedule(trace, schedule)
    assert "T.parallel" in schedule.mod.script()


def test_a_callable_may_answer_several_schedules(farm: FakeService, tmp_path: Path) -> None:
    def several(schedule: Any) -> list[Any]:
        other = schedule.copy()
        space(other)
        return [schedule, other]

    tune(farm, tmp_path, space=several)
    (found,) = submitted(farm)["spaces"].values()
    assert [len(trace[0]) > 0 for trace in found["traces"]] == [False, True]


def test_a_space_cannot_change_the_callers_module(farm: FakeService, tmp_path: Path) -> None:
    def careless(schedule: Any) -> Any:
        # Nothing else holds this module: TVM then schedules what it shares with others in place.
        other = tvm.s_tir.Schedule(tvm.IRModule({"main": schedule.mod["main"].with_attr("x", 1)}))
        space(other)
        return other

    tune(farm, tmp_path, space=careless)
    assert "T.parallel" not in MMRelu.script()


def test_a_schedule_fn_brings_the_targets_defaults(farm: FakeService, tmp_path: Path) -> None:
    tune(farm, tmp_path, space=ScheduleFn(space))
    (found,) = submitted(farm)["spaces"].values()
    assert set(found) == {"traces"}


def test_explicit_postprocs_and_mutators_travel_by_name(farm: FakeService, tmp_path: Path) -> None:
    generator = ScheduleFn(space, [], [RewriteReductionBlock()], {ms.mutator.MutateTileSize(): 0.5})
    tune(farm, tmp_path, space=generator)
    (found,) = submitted(farm)["spaces"].values()
    assert found["postprocs"] == ["RewriteReductionBlock"]
    assert found["mutators"] == {"MutateTileSize": 0.5}


def test_special_space_none_skips_the_task_and_another_is_its_own(farm: FakeService, tmp_path: Path) -> None:
    three = tvm.IRModule({**renamed("a").functions, **renamed("b").functions, **renamed("c").functions})
    tune(farm, tmp_path, three, TARGET, 8, special_space={"a": None, "b": space})
    body = submitted(farm)
    sent = tvm.ir.load_json(json.dumps(body["module"]))
    assert sorted(variable.name_hint for variable in sent.get_global_vars()) == ["b", "c"]
    assert list(body["spaces"]) == ["b"]


@tvm.ir.utils.derived_object
class _OwnPostproc(PyPostproc):
    def _initialize_with_tune_context(self, context: Any) -> None: ...

    def apply(self, sch: Any) -> bool:
        return sch is not None

    def clone(self) -> Any:
        return _OwnPostproc()


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("builder", object()),
        ("runner", "rpc"),
        ("database", object()),
        ("cost_model", "mlp"),
        ("measure_callbacks", [object()]),
        ("task_scheduler", "round-robin"),
        ("module_equality", "anchor-block"),
        ("post_optimization", True),
        ("strategy", "replay-func"),
        ("strategy", object()),
        ("space", "union"),
        ("space", 7),
        ("space", []),
        ("space", lambda schedule: schedule.mod),
        ("space", lambda schedule: tvm.s_tir.Schedule(schedule.mod, enable_check=False) and []),
        ("space", ScheduleFn(space, [], [_OwnPostproc()], {})),
        ("space", ScheduleFn(space, [], [], {MutateParallel(max_jobs_per_core=3): 1.0})),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_what_cannot_travel_is_refused_by_its_name(
    farm: FakeService, tmp_path: Path, argument: str, value: Any
) -> None:
    with pytest.raises(tilefarm.CannotTravelError) as refusal:
        tune(farm, tmp_path, **{argument: value})
    assert refusal.value.argument == argument
    assert argument in str(refusal.value)
    assert [request for request in farm.requests if request.method == "POST"] == []


def test_a_special_space_is_refused_by_its_task(farm: FakeService, tmp_path: Path) -> None:
    with pytest.raises(tilefarm.CannotTravelError, match=r"special_space\['mm_relu'\]"):
        tune(farm, tmp_path, special_space={"mm_relu": 7})
    with pytest.raises(tilefarm.CannotTravelError, match=r"special_space\['mm_relu'\]: 'tilefarm'"):
        tune(farm, tmp_path, special_space={"mm_relu": "tilefarm"})


def test_nothing_to_tune_is_said(farm: FakeService, tmp_path: Path) -> None:
    with pytest.raises(tilefarm.ModuleError, match="no PrimFunc"):
        tune(farm, tmp_path, space=None)
    with pytest.raises(tilefarm.TargetError, match="mcpu"):
        tune(farm, tmp_path, MMRelu, {"kind": "llvm"}, 8)


def test_where_its_log_cannot_stand_there_is_no_job(farm: FakeService, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError):
        tune(farm, tmp_path / "file")
    assert farm.requests == []


def test_a_failed_job_is_an_error_and_ctrl_c_cancels(
    farm: FakeService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    farm.routes["GET /v1/jobs/7"] = answers(httpx.Response(200, json=view(5, "failed", error="poison")))
    with pytest.raises(tilefarm.JobFailedError, match="poison"):
        tune(farm, tmp_path)
    farm.routes["POST /v1/jobs/7:cancel"] = answers(httpx.Response(200, json=view(6)))

    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(ProgressLine, "show", interrupted)
    with pytest.raises(KeyboardInterrupt):
        tune(farm, tmp_path)
    assert farm.requests[-1].url.path == "/v1/jobs/7:cancel"


PROGRESS = view(
    3,
    trials={"submitted": 8, "done": 5, "failed": 1, "cancelled": 0, "queued": 2},
    outcomes={"ok": 3, "cut_off": 1, "run_error": 1, "worker_lost": 1},
    weighted_latency_secs=2e-5,
    speedup=4.25,
    eta_secs=90,
    tasks=[{"flops": 4e6, "weight": 1}],
)


def test_progress_says_all_that_a_watcher_asks() -> None:
    assert describe(PROGRESS) == (
        "running 6/8 trials, best 20 µs, 4.2x untuned, 200 GFLOP/s, 2 failed, 1 min 30 s left"
    )
    assert describe(view(1, "queued")) == "queued 0/8 trials, 0 failed"


def test_a_terminal_gets_one_line_and_a_file_gets_few() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal, file, clock = Terminal(), io.StringIO(), iter([10.0, 10.0, 11.0, 17.0, 17.0, 18.0])
    for stream_ in (terminal, file):
        line = ProgressLine(stream_, label="mm", now=lambda: next(clock))
        for done in (1, 2, 3):
            line.show({**PROGRESS, "trials": {"done": done}})
        line.end()
    assert terminal.getvalue().count("\n") == 1
    assert terminal.getvalue().count("\r") == 3
    assert file.getvalue().splitlines()[0].startswith("mm  running 1/8")
    assert len(file.getvalue().splitlines()) == 2


@pytest.mark.parametrize(
    ("secs", "text"),
    [
        (2.5, "2.5 s"), (0.0123, "12.3 ms"), (0.000999, "999 µs"), (3e-8, "30 ns"), (1234.0, "1234 s"),
        (0.99996, "1 s"), (0.99996e-3, "1 ms"), (0.0, "0 ns"),
    ],
)  # fmt: skip
def test_latencies_have_three_digits_and_a_unit(secs: float, text: str) -> None:
    assert latency_text(secs) == text
