"""The validator child: what a client sent, loaded by TVM inside a sandbox, comes back as plain data.

`run` answers requests until the channel ends. An error of the client is an answer; a crash of TVM is seen by
the parent as the child's death. It measures and searches nothing.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from checks.target import TargetError
from tuner import module as modules
from tuner.errors import RequestError, TunerError, UnknownTargetError, WorkloadError
from tuner.extraction import NotTuned
from tuner.model import model_tasks
from tuner.space.generator import check_space
from tuner.space.spec import canonical_space, space_hash
from tuner.target import canonical_of, check_host, resolve_tag
from tuner.trace import apply_to, brief, trace_python, untouched_schedule
from tuner.tvm_light import tvm_version

Answer = dict[str, Any]


class Channel(Protocol):
    """The child's end of the pipe (sandbox.channel; an in-memory pair in tests)."""

    def recv(self) -> tuple[dict[str, Any], list[bytes]]: ...

    def send(self, obj: Mapping[str, Any], *blobs: bytes) -> None: ...


def run(channel: Channel) -> None:
    """The entry point `tuner.intake:run`."""
    while True:
        try:
            request, _ = channel.recv()
        except EOFError:
            return
        channel.send(answer(request))


def answer(request: Mapping[str, Any]) -> Answer:
    """One request's answer; a request that makes no sense is answered too."""
    try:
        return _operate(request)
    except KeyError as error:
        return _errors({"code": "bad_request", "function": None, "detail": f"the request lacks {error}"})
    except TunerError as error:
        return _errors(_as_json(error))
    except Exception as error:  # noqa: BLE001 - the child-process boundary: TVM raises anything
        detail = f"{type(error).__name__}: {brief(error)}"
        return _errors({"code": "intake_failed", "function": None, "detail": detail})


def _operate(request: Mapping[str, Any]) -> Answer:
    handler = _OPERATIONS.get(str(request.get("op")))
    if handler is None:
        raise RequestError(f"there is no operation {request.get('op')!r}")
    return handler(request)


def _module(request: Mapping[str, Any]) -> Answer:
    """Every function is looked at, so that one answer names every fault."""
    functions: list[Answer] = []
    errors: list[Answer] = []
    spaces = request.get("spaces") or {}
    found = modules.prim_functions(modules.load_module(str(request["module"])))
    for name in sorted(set(spaces) - set(found)):
        detail = f"there is a design space for {name}, but no such function"
        errors.append({"code": "bad_space", "function": name, "detail": detail})
    for name, func in found.items():
        try:
            functions.append(_function(name, func, spaces.get(name)))
        except TunerError as error:
            errors.append({**_as_json(error), "function": name})
    return {"functions": [] if errors else functions, "errors": errors, "tvm_version": tvm_version()}


def _model(request: Mapping[str, Any]) -> Answer:
    """The tasks of a Relax model; a part of it that cannot be tuned is a warning."""
    spaces = request.get("spaces") or {}
    tasks, not_tuned = model_tasks(
        str(request["module"]),
        request["target"],
        pipeline=str(request["pipeline"]),
        bound_params=request.get("bound_params") or (),
        op_names=request.get("op_names") or (),
    )
    names = {task.workload.name for task in tasks}
    strange = sorted(set(spaces) - names)
    if strange:
        detail = f"there is a design space for {strange[0]}, but no such task"
        return _errors({"code": "bad_space", "function": strange[0], "detail": detail})
    functions = [
        {**_function_of(task.workload, spaces.get(task.workload.name)), "warnings": [], "weight": task.weight}
        for task in tasks
    ]
    warnings = [_as_warning(part) for part in not_tuned]
    return {"functions": functions, "errors": [], "warnings": warnings, "tvm_version": tvm_version()}


def _as_warning(part: NotTuned) -> Answer:
    return {"code": part.code, "function": part.name, "detail": f"not tuned: {part.detail}"}


def _function(name: str, func: Any, space: Any) -> Answer:
    workload = modules.workload_of(name, func)
    return {
        **_function_of(workload, space),
        "warnings": [] if workload.had_noalias else [_no_noalias(name)],
    }


def _function_of(workload: modules.Workload, space: Any) -> Answer:
    name = workload.name
    canonical = None
    if space is not None:
        canonical = canonical_space(space, function=name)
        check_space(canonical, modules.load_module(workload.module))
    return {
        "name": name,
        "shash": workload.shash,
        "module": workload.module,
        "flops": workload.flops,
        "anchor_hash": workload.anchor_hash,
        "parameters": list(workload.parameters),
        "args": [{"shape": list(shape), "dtype": dtype} for shape, dtype in workload.args],
        "space": canonical,
        "space_hash": space_hash(canonical),
    }


def _no_noalias(name: str) -> Answer:
    detail = (
        f"{name} does not say tirx.noalias: it is tuned as if it did, but your own compile keeps your "
        "function's attributes, and may run several times slower without it"
    )
    return {"code": "no_noalias", "function": name, "detail": detail}


def _target(request: Mapping[str, Any]) -> Answer:
    target, host = request["target"], request.get("host")
    try:
        if isinstance(target, Mapping) and set(target) == {"tag"}:
            return {"canonical": resolve_tag(str(target["tag"]))}
        found = canonical_of(target)
        if host is not None:
            check_host(found, features=host["features"], machine=str(host["machine"]))
    except (TargetError, UnknownTargetError) as error:
        return {"errors": [{"code": error.code, "detail": error.detail}]}
    return {"canonical": found}


def _equal(request: Mapping[str, Any]) -> Answer:
    left, right = (modules.load_canonical(str(request[side])) for side in ("a", "b"))
    return {"equal": modules.structurally_equal(left, right)}


def _applies(request: Mapping[str, Any]) -> Answer:
    """Of each trace why it does not apply to the module, or None."""
    untouched = untouched_schedule(modules.load_canonical(str(request["module"])))
    faults: list[str | None] = []
    for trace in request["traces"]:
        try:
            apply_to(str(trace), untouched.copy())
            faults.append(None)
        except TunerError as error:
            faults.append(str(_as_json(error)["detail"]))
    return {"faults": faults}


def _python(request: Mapping[str, Any]) -> Answer:
    mod = modules.load_module(str(request["module"]))
    python, script = trace_python(str(request["trace"]), mod)
    return {"trace_python": python, "script": script, "untuned_script": str(mod.script())}


_OPERATIONS: dict[str, Callable[[Mapping[str, Any]], Answer]] = {
    "module": _module,
    "model": _model,
    "target": _target,
    "equal": _equal,
    "applies": _applies,
    "python": _python,
}


def _errors(*errors: Answer) -> Answer:
    return {"functions": [], "errors": list(errors), "tvm_version": tvm_version()}


def _as_json(error: TunerError) -> Answer:
    function = error.function if isinstance(error, WorkloadError) else None
    return {"code": error.code, "function": function, "detail": error.detail}
