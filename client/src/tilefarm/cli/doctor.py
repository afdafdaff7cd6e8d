"""`tilefarm doctor`: whether everything is in place to submit from and compile on this machine.

Each check says what was found and, where it failed, what to do. Nothing is changed.
"""

import argparse
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from tilefarm import pairs
from tilefarm.cli import output
from tilefarm.cli.exits import Exit
from tilefarm.client import Client
from tilefarm.errors import AuthError, NotConfiguredError, ServiceError
from tilefarm.version import VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    name: str
    #: ok, warning or failed.
    result: str
    detail: str


def add(commands: Any, shared: argparse.ArgumentParser) -> None:
    command = commands.add_parser(
        "doctor", parents=[shared], help="check service, token, versions, this host"
    )
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> Exit:
    checks: list[Check] = []
    for check in (*_tvm(), *_service(arguments)):
        checks.append(check)
        if arguments.output != "json":
            print(f"{check.result:8} {check.name:10} {check.detail}", flush=True)
    if arguments.output == "json":
        output.print_json([asdict(check) for check in checks])
    return Exit.FAILED if any(check.result == "failed" for check in checks) else Exit.OK


def _tvm() -> Iterator[Check]:
    """From metadata: a pair that crashes must not be imported to be found."""
    tvm, ffi = _installed("apache-tvm"), _installed("apache-tvm-ffi")
    if tvm is None:
        yield Check(name="tvm", result="warning", detail="TVM is not installed here: submit JSON, not .py")
        return
    known = pairs.fault((tvm, ffi or ""))
    if known is not None:
        yield Check(name="tvm", result="failed", detail=known)
        return
    yield Check(name="tvm", result="ok", detail=f"apache-tvm {tvm}, apache-tvm-ffi {ffi}")
    yield Check(name="host", result="ok", detail=_host_cpu())
    yield _threads()


def _host_cpu() -> str:
    import tvm
    from tvm.target import codegen

    del tvm
    return f"LLVM recognises this CPU as mcpu {codegen.llvm_get_system_cpu()}"


def _threads() -> Check:
    """TVM's thread pool takes half of the host's cores unless TVM_NUM_THREADS says otherwise."""
    import tvm

    pool = int(tvm.get_global_func("runtime.NumThreads")())
    cores = len(os.sched_getaffinity(0))
    if pool >= cores:
        return Check(name="threads", result="ok", detail=f"compiled functions run on {pool} threads")
    detail = (
        f"compiled functions run on {pool} of {cores} cores; set TVM_NUM_THREADS to the target's num-cores"
    )
    return Check(name="threads", result="warning", detail=detail)


def _service(arguments: argparse.Namespace) -> Iterator[Check]:
    try:
        client: Client = arguments.connect()
    except NotConfiguredError as error:
        yield Check(name="url", result="failed", detail=str(error))
        return
    with client:
        started = time.monotonic()
        try:
            found = client.version()
        except AuthError as error:
            yield Check(name="token", result="failed", detail=str(error))
            return
        except ServiceError as error:
            yield Check(name="url", result="failed", detail=str(error))
            return
        ms = (time.monotonic() - started) * 1e3
        yield Check(name="url", result="ok", detail=f"{client.url} answers in {ms:.0f} ms")
        yield Check(name="versions", result="ok", detail=f"client {VERSION}, service {found.get('version')}")
        yield from _farm(client)


def _farm(client: Client) -> Iterator[Check]:
    try:
        served = [target for target in client.targets() if target.get("workers_alive")]
        lacking = [scope for scope, question in _QUESTIONS.items() if not _may(client, question)]
        workers = [] if "jobs:read" in lacking else client.workers()
    except AuthError as error:
        yield Check(name="token", result="failed", detail=str(error))
        return
    except ServiceError as error:
        yield Check(name="service", result="failed", detail=str(error))
        return
    yield _token(lacking)
    alive = [worker for worker in workers if worker.get("health") == "alive"]
    names = ", ".join(str(target.get("name")) for target in served)
    result = "ok" if served else "warning"
    counted = "" if "jobs:read" in lacking else f"{len(alive)} alive; "
    yield Check(name="workers", result=result, detail=f"{counted}targets served: {names or 'none'}")
    yield from _same_tvm({str(worker.get("tvm_version")) for worker in alive})


#: What takes each scope, of those that read. One who compiles needs records:read alone.
_QUESTIONS: dict[str, Callable[[Client], Iterator[Any]]] = {
    "jobs:read": lambda client: client.jobs(),
    "records:read": lambda client: client.records(target_key="0" * 64, state="published"),
}
_WITHOUT = {
    "jobs:read": "no job can be watched from here",
    "records:read": "compiles here will find no records",
}


def _may(client: Client, question: Callable[[Client], Iterator[Any]]) -> bool:
    try:
        next(question(client), None)
    except AuthError:
        return False
    return True


def _token(lacking: list[str]) -> Check:
    if not lacking:
        return Check(name="token", result="ok", detail=f"the token has {' and '.join(_QUESTIONS)}")
    said = "; ".join(f"the token lacks {scope}: {_WITHOUT[scope]}" for scope in lacking)
    return Check(name="token", result="failed" if len(lacking) == len(_QUESTIONS) else "warning", detail=said)


def _same_tvm(theirs: set[str]) -> Iterator[Check]:
    """Records are kept by TVM version: another one here finds none."""
    ours = _installed("apache-tvm")
    if ours is None or not theirs:
        return
    detail = f"here TVM {ours}, at the workers {', '.join(sorted(theirs))}"
    if ours in theirs:
        yield Check(name="same tvm", result="ok", detail=detail)
    else:
        yield Check(name="same tvm", result="warning", detail=f"{detail}: compiles here will find no records")


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
