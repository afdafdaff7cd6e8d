"""The entry of the disposable child that builds, checks and times one candidate.

Its life: take the order; replay, build, generate code, fill inputs; say "built"; wait for the token that
carries the device's cores and the best time so far; run once, compare, time; answer; end. Every way to fail
that Python can see is answered as an outcome; the others its parent reads from how the child ended.

Order in: {"module", "trace", "target", "policy", "linker", "reference": directory}, with the library as a
blob where it was built before. Out: {"built": true, "stage_secs"}, or at once the final answer {"outcome",
"run_secs", "error", "stage_secs"}. Token in: {"cpus", "best_latency_secs"}. Out: final answer.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from db.states import Outcome
from sandbox.channel import Channel
from sandbox.seccomp import forbid_processes
from workers.arguments import Arguments
from workers.messages import MeasurePolicy
from workers.program import ENTRY, Program, compile_module, link, load_module, loader, replay
from workers.reference_files import read_reference
from workers.run_device import RunDevice, flushed_evaluator, run_device
from workers.stages import Ended, Stages
from workers.timing import cut_off, probe, repeats, timed_call

#: A first run that takes more than this share of the time limit stays the only one.
_ONE_RUN_SHARE = 0.25
#: Outputs are compared again after the timing, so often at most, and for so long beside it.
_MOST_CHECKS, _CHECK_SHARE = 8, 0.1
#: Arguments up to this are filled before the device is asked for: several built children wait with theirs.
_EARLY_BYTES = 16 << 20


def run(channel: Channel) -> None:
    order, blobs = channel.recv()
    stages, device = Stages(), run_device(order["target"])
    try:
        load = _fetched(blobs[0], stages) if blobs else _built(order, stages)
        program = None
        if device.ready_early:
            with stages.stage("build", Outcome.BUILD_ERROR):
                forbid_processes()
                program = load()
        with stages.stage("load", Outcome.RUN_ERROR):
            arguments = Arguments(reference=read_reference(Path(order["reference"])))
            if device.ready_early and arguments.size_bytes <= _EARLY_BYTES:
                arguments.fill(device.tvm)
        channel.send({"built": True, "stage_secs": stages.secs})
        token, _ = channel.recv()
        with stages.stage("load", Outcome.RUN_ERROR):
            device.take(token["cpus"])
            program = program or load()
            if not arguments.tensors:
                arguments.fill(device.tvm)
        policy = MeasurePolicy.from_json(order["policy"])
        run_secs = _measure(program, arguments, device, policy, stages, best_secs=token["best_latency_secs"])
        answer: dict[str, Any] = {"outcome": Outcome.OK, "run_secs": run_secs, "error": None}
    except Ended as ended:
        answer = ended.answer()
    channel.send({**answer, "stage_secs": stages.secs})


def _built(order: dict[str, Any], stages: Stages) -> Callable[[], Program]:
    """What loads the candidate, which is built."""
    with stages.stage("replay", Outcome.REJECTED):
        scheduled = replay(load_module(order["module"]), order["trace"])
    with stages.stage("build", Outcome.BUILD_ERROR):
        runtime = compile_module(scheduled, order["target"])
        return link(runtime, linker=order["linker"], directory=Path.cwd())


def _fetched(library: bytes, stages: Stages) -> Callable[[], Program]:
    """The same where another child has built it, from the same order."""
    with stages.stage("build", Outcome.BUILD_ERROR):
        return loader(library, directory=Path.cwd())


def _measure(
    program: Program,
    arguments: Arguments,
    device: RunDevice,
    policy: MeasurePolicy,
    stages: Stages,
    *,
    best_secs: float | None,
) -> list[float]:
    tensors = arguments.tensors

    def call() -> None:
        program.call(*tensors)
        device.wait()

    def warm(number: int) -> float:
        timer = program.module.time_evaluator(ENTRY, device.tvm, number=number, repeat=1)
        return float(timer(*tensors).results[0])

    limit = cut_off(policy, best_secs)
    with stages.stage("check", Outcome.RUN_ERROR):
        cold_secs = timed_call(call, limit)
        error = arguments.difference()
        if error is not None:
            raise Ended(Outcome.WRONG_OUTPUT, error)
    with stages.stage("measure", Outcome.RUN_ERROR):
        arguments.refill()
        if cold_secs > _ONE_RUN_SHARE * policy.run_timeout_secs:
            return [cold_secs]
        probe_secs = probe(call, limit, cold_secs=cold_secs)
        if limit is not None and min(cold_secs, probe_secs) > limit.limit_secs:
            ratio = probe_secs / limit.limit_secs * policy.cut_off_ratio
            raise Ended(Outcome.CUT_OFF, f"{ratio:.1f} times slower than the best so far", [probe_secs])
        flush = None
        evaluate: Callable[[int], float] = warm
        if policy.flush_cache and device.by_evaluator:
            evaluate = flushed_evaluator(program.module, ENTRY, device, tensors)
        elif policy.flush_cache:
            flush = device.flusher(tensors)
        began = time.perf_counter()
        run_secs = repeats(
            call,
            evaluate,
            estimate_secs=probe_secs,
            policy=policy,
            best_secs=best_secs,
            flush=flush,
            by_evaluator=device.by_evaluator,
        )
        spent_secs = time.perf_counter() - began
    with stages.stage("check", Outcome.RUN_ERROR):
        check_again(call, arguments, for_secs=_CHECK_SHARE * spent_secs)
    return run_secs


def check_again(call: Callable[[], None], arguments: Arguments, *, for_secs: float) -> None:
    """Once at least: what two cores write at once is right in most runs. Raises Ended where one is not."""
    ends = time.perf_counter() + for_secs
    for _ in range(_MOST_CHECKS):
        arguments.refill()
        call()
        error = arguments.difference()
        if error is not None:
            raise Ended(Outcome.WRONG_OUTPUT, f"{error}; an earlier run of the same program was right")
        if time.perf_counter() > ends:
            break
