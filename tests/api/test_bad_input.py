"""Each bad input has its answer: problem+json that names function and cause."""

import base64
import gzip
import json

import pytest
import tvm
from tvm import te

from sandbox.errors import SpawnRefused
from services.api import intake
from services.api.settings import ApiSettings
from tests.api.conftest import TARGET, problem
from tests.checks import modules

JSON = {"Content-Type": "application/json"}
#: For what is refused before a row is looked at: the other engine would say the same.
on_sqlite = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


def refused(response, code, *, function=None, status=422) -> str:
    """The problem has this code, also in its first entry, which names the function."""
    body = problem(response, status)
    assert body["code"] == code, body
    if body["errors"]:
        assert (body["errors"][0]["code"], body["errors"][0]["function"]) == (code, function)
    return body["detail"]


@on_sqlite
@pytest.mark.parametrize(
    "content", ["{", "", '{"module": }', "[" * 100_000, '{"a": ' + "9" * 5000 + "}", b"\xff\xfe{}"]
)
def test_malformed_json(api, content):
    response = api("POST", "/v1/jobs", content=content, headers=JSON)
    assert response.status_code in {400, 422}
    assert problem(response, response.status_code)["code"] in {"malformed_json", "invalid_request"}


def test_a_module_string_that_is_not_json(api):
    response = api("POST", "/v1/jobs", json={"module": "@T.prim_func", "target": TARGET})
    refused(response, "malformed_json", status=400)
    deep = api("POST", "/v1/jobs", json={"module": "[" * 100_000, "target": TARGET})
    refused(deep, "malformed_json", status=400)


@on_sqlite
def test_a_field_is_named_as_its_sender_knows_it(api):
    target = problem(api("POST", "/v1/jobs", json={"module": {}, "target": 5}), 422)
    assert [entry["detail"].partition(":")[0] for entry in target["errors"]] == ["target", "target"]
    for content in ("", "null", "[]"):
        detail = problem(api("POST", "/v1/jobs", content=content, headers=JSON), 422)["detail"]
        assert detail.startswith("body: ")


@on_sqlite
def test_a_gpu_without_its_limits_cannot_be_tuned_for(api):
    detail = refused(api.submit(target={"kind": "cuda", "arch": "sm_86"}), "missing_target_option")
    assert "max_threads_per_block" in detail
    limits = {"max_threads_per_block": 1024, "max_shared_memory_per_block": 49152}
    assert api.submit(target={"kind": "cuda", "arch": "sm_86", **limits}).status_code == 201


@on_sqlite
@pytest.mark.parametrize("module", [{}, [], 3, None, {"nodes": [], "root_index": 0}, '"text"'])
def test_not_an_ir_module(api, module):
    refused(api("POST", "/v1/jobs", json={"module": module, "target": TARGET}), "not_an_ir_module")


def test_no_prim_func(api):
    empty = json.loads(tvm.ir.save_json(tvm.IRModule({})))
    refused(api("POST", "/v1/jobs", json={"module": empty, "target": TARGET}), "no_prim_func")


def test_a_symbolic_shape_names_the_function(api):
    n = te.var("n", "int64")
    a = te.placeholder((n,), name="A")
    function = te.create_prim_func([a, te.compute((n,), lambda i: a[i] + 1.0)])
    module = json.loads(tvm.ir.save_json(tvm.IRModule({"add_one": function})))
    refused(
        api("POST", "/v1/jobs", json={"module": module, "target": TARGET}),
        "symbolic_shape",
        function="add_one",
    )


def test_an_already_scheduled_function(api):
    function = modules.module("matmul")["main"].with_attr("tirx.is_scheduled", True)
    module = json.loads(tvm.ir.save_json(tvm.IRModule({"main": function})))
    refused(
        api("POST", "/v1/jobs", json={"module": module, "target": TARGET}),
        "already_scheduled",
        function="main",
    )


def test_a_disallowed_operator_names_the_function(api):
    graph = modules.graph("sigmoid")
    next(node for node in graph["nodes"] if node["type"] == "ir.Op")["data"] = "tirx.call_extern"
    detail = refused(
        api("POST", "/v1/jobs", json={"module": graph, "target": TARGET}), "disallowed_op", function="main"
    )
    assert "call_extern" in detail


@pytest.mark.parametrize(
    ("target", "code"),
    [
        ("no-such-profile", "unknown_target"),
        ("nvidia/no-such-gpu", "unknown_target"),
        ("llvm -mcpu=znver4", "unknown_target"),
        ({"kind": "opencl"}, "unknown_target"),
        ({"kind": "llvm", "mcpu": "znver4"}, "missing_target_option"),
        ({"kind": "llvm", "mcpu": "znver4", "num-cores": 2, "cl-opt": ["x"]}, "bad_target_option"),
        ({"kind": "llvm", "mcpu": "native", "num-cores": 2}, "bad_target_option"),
        ({"kind": "llvm", "mcpu": "znver99", "num-cores": 2}, "unknown_mcpu"),
    ],
)
def test_a_target_that_is_unknown_or_not_allowed(api, target, code):
    refused(api.submit(target=target), code)


@on_sqlite
@pytest.mark.parametrize("budget", [0, -1, 1_000_001, 2**70, 1.5, "64", True])
def test_a_budget_out_of_range(api, budget):
    for name in ("max_trials", "max_trials_per_task"):
        assert name in problem(api.submit(**{name: budget}), 422)["detail"]


@on_sqlite
@pytest.mark.parametrize(
    "field",
    [
        {"priority": 101}, {"priority": -101}, {"seed": -1}, {"seed": 2**63}, {"strategy": "grid"},
        {"name": ""}, {"name": "x" * 201}, {"name": "nul\x00"}, {"name": "\ud800"}, {"unknown": 1},
        {"weights": {"main": 0}}, {"weights": {"main": "1"}}, {"weights": []},
        {"spaces": {"main": []}}, {"options": []}, {"target": 3}, {"space": "cuda"},
        {"name": "\x9b31m"},
    ],
    ids=str,
)  # fmt: skip
def test_a_field_out_of_range_is_named(api, field):
    body = json.dumps({"module": modules.graph("matmul"), "target": TARGET, **field})
    response = api("POST", "/v1/jobs", content=body, headers=JSON)
    assert next(iter(field)) in problem(response, 422)["detail"]


@on_sqlite
@pytest.mark.parametrize(
    ("field", "code"),
    [
        ({"\ud800": 1}, "invalid_request"),
        ({"weights": {"\ud800": 1.0}}, "unknown_function"),
        ({"spaces": {"\ud800": {}}}, "bad_space"),
        ({"options": {"\ud800": 1}}, "bad_option"),
    ],
    ids=ascii,
)
def test_half_a_surrogate_pair_is_refused(api, field, code):
    body = json.dumps({"module": modules.graph("matmul"), "target": TARGET, **field})
    assert problem(api("POST", "/v1/jobs", content=body, headers=JSON), 422)["code"] == code


@on_sqlite
def test_a_function_named_by_half_a_surrogate_pair_is_refused(api):
    graph = modules.graph("matmul")
    next(node for node in graph["nodes"] if node.get("data") == "main")["data"] = "\ud800"
    body = json.dumps({"module": graph, "target": TARGET})
    assert problem(api("POST", "/v1/jobs", content=body, headers=JSON), 422)["code"] == "bad_name"


@on_sqlite
@pytest.mark.parametrize(
    "options",
    [
        {"no_such_option": 1}, {"min_repeat": 0}, {"min_repeat": 1.5}, {"min_repeat": True},
        {"build_timeout_secs": 1e9}, {"flush_cache": 1}, {"batch_size": "16"}, {"isolation_key": "a b"},
        {"patience": 7}, {"peak_share": 1.01},
        {"min_repeat": 9, "max_repeat": 8}, {"integer_low": 5, "integer_high": 5}, {"eps_greedy": None},
    ],
    ids=str,
)  # fmt: skip
def test_an_option_that_is_unknown_or_out_of_range_is_named(api, options):
    assert next(iter(options)) in refused(api.submit(options=options), "bad_option")


def test_weights_and_spaces_name_functions_of_the_module(api):
    assert problem(api.submit(weights={"other": 2}), 422)["code"] == "unknown_function"
    trace = [[["GetSBlock", [], ["C", "main"], ["b0"]]], []]
    response = api.submit(spaces={"other": {"traces": [trace]}})
    assert refused(response, "bad_space", function="other")


@on_sqlite
@pytest.mark.parametrize(
    "space",
    [
        {}, {"traces": []}, {"traces": [[]]}, {"traces": "x"},
        {"traces": [[[["Annotate", ["b0", 1], ["pragma_import_llvm"], []]], []]]},
        {"traces": [[[["GetSBlock", [], ["no_such_block", "main"], ["b0"]]], []]]},
        {"traces": [[[], []]], "postprocs": ["NoSuchPostproc"]},
        {"traces": [[[], []]], "mutators": {"MutateTileSize": 7}},
    ],
    ids=str,
)  # fmt: skip
def test_a_design_space_that_is_not_allowed_or_does_not_fit(api, space):
    refused(api.submit(spaces={"main": space}), "bad_space", function="main")


@on_sqlite
def test_a_body_too_large_is_refused_however_it_is_sent(api):
    large = b'{"module": "' + b"x" * (5 << 20) + b'"}'
    assert problem(api("POST", "/v1/jobs", content=large, headers=JSON), 413)["code"] == "body_too_large"
    pieces = (large[start : start + 65536] for start in range(0, len(large), 65536))
    assert problem(api("POST", "/v1/jobs", content=pieces, headers=JSON), 413)["code"] == "body_too_large"
    bomb = gzip.compress(b"[" + b"0," * (200 << 20 >> 1) + b"0]")
    assert len(bomb) < 1 << 20
    headers = {**JSON, "Content-Encoding": "gzip"}
    assert problem(api("POST", "/v1/jobs", content=bomb, headers=headers), 413)["code"] == "body_too_large"


@on_sqlite
def test_encodings_and_media_types_that_are_not_ours(api):
    body = b'{"module": {}}'
    assert problem(api("POST", "/v1/jobs", content=body, headers={"Content-Type": "text/plain"}), 415)
    headers = {**JSON, "Content-Encoding": "br"}
    assert (
        problem(api("POST", "/v1/jobs", content=body, headers=headers), 415)["code"] == "unsupported_encoding"
    )
    headers = {**JSON, "Content-Encoding": "gzip"}
    assert problem(api("POST", "/v1/jobs", content=body, headers=headers), 400)["code"] == "malformed_gzip"
    torn = gzip.compress(b'{"module": {}}')[:-9]
    assert problem(api("POST", "/v1/jobs", content=torn, headers=headers), 400)["code"] == "malformed_gzip"


@pytest.mark.parametrize("key", ["", "x" * 201, "with space"])
def test_an_idempotency_key_that_is_not_one(api, key):
    assert "Idempotency-Key" in problem(api.submit(headers={"Idempotency-Key": key}), 422)["detail"]


def test_paths_and_methods_that_are_not_there(api):
    assert problem(api("GET", "/v1/nothing"), 404)["code"] == "not_found"
    assert problem(api("DELETE", "/v1/jobs"), 405)["code"] == "method_not_allowed"
    assert problem(api("GET", "/v1/jobs/job-aaaaaaaaaaaaaaaa"), 404)["code"] == "job_not_found"
    assert problem(api("POST", "/v1/jobs/job-aaaaaaaaaaaaaaaa:cancel"), 404)["code"] == "job_not_found"
    assert problem(api("GET", "/v1/jobs/job-aaaaaaaaaaaaaaaa/tasks"), 404)["code"] == "job_not_found"
    assert problem(api("GET", "/v1/jobs/job-aaaaaaaaaaaaaaaa/trials"), 404)["code"] == "job_not_found"
    assert problem(api("GET", "/v1/jobs/job-aaaaaaaaaaaaaaaa/events"), 404)["code"] == "job_not_found"
    for path in ("trials/1", "tasks/1", "tasks/1/record", "records/1", "workers/w", "targets/nope"):
        assert problem(api("GET", f"/v1/{path}", as_="root"), 404)
    for path in ("trials/0", "trials/x", f"tasks/{2**63}", "jobs/a%00b", "records/-1"):
        assert problem(api("GET", f"/v1/{path}", as_="root"), 422)


#: Moments that have no form in UTC.
OUT_OF_UTC = [
    base64.urlsafe_b64encode(json.dumps([moment, "job-aaaaaaaaaaaaaaaa"]).encode()).decode()
    for moment in ("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00")
]

#: Names that no database takes, and an id that is none.
NO_WORKERS = [
    base64.urlsafe_b64encode(json.dumps([name, "2026-01-01T00:00:00+00:00", worker]).encode()).decode()
    for name, worker in (
        ("\0", "worker-aaaaaaaaaaaaaaaa"),
        ("\ud800", "worker-aaaaaaaaaaaaaaaa"),
        (7, "worker-aaaaaaaaaaaaaaaa"),
        ("a", "job-aaaaaaaaaaaaaaaa"),
        ("a", 7),
    )
]


@pytest.mark.parametrize(
    "token", ["x", "W10", "WzFd", "eyJhIjoxfQ", "é", "WyJ4IiwgInkiXQ", "a" * 1401, *OUT_OF_UTC, *NO_WORKERS]
)
def test_a_page_token_that_no_page_gave(api, token):
    for path in ("/v1/jobs", "/v1/workers"):
        assert problem(api("GET", path, params={"page_token": token}), 422)
    assert token == "WzFd" or problem(api("GET", "/v1/records", params={"page_token": token}), 422)


@on_sqlite
@pytest.mark.parametrize("entry", ["segfault", "abort", "spin", "hog"])
def test_a_module_that_kills_the_loader_kills_nothing_else(api, app, monkeypatch, profile, entry):
    good = app.state.intake
    settings = ApiSettings(database_url="sqlite://", intake_cpu_secs=1, intake_memory_bytes=4 << 30)
    monkeypatch.setattr(intake, "ENTRY", f"tests.api.poison:{entry}")
    app.state.intake = intake.Intake(good._server, settings)
    detail = refused(api.submit(target=profile), "module_crashes_loader")
    assert "TVM did not survive the module" in detail
    monkeypatch.undo()
    app.state.intake = good
    assert api.submit(target=profile).status_code == 201


def test_a_farm_that_makes_no_child_is_unavailable(api, app):
    class Refusing:
        def spawn(self, entry, *, limits):
            raise SpawnRefused(f"no memory for {entry} {limits}")

    app.state.intake = intake.Intake(Refusing(), app.state.settings)
    response = api.submit()
    assert problem(response, 503)["code"] == "intake_unavailable"
    assert response.headers["retry-after"] == "5"
