"""The entry of the child that asks TVM what CPU and GPU it runs on, and whether a target fits.

Order in: {"num_cores", "target": null or a dict, "times": whether this host runs what is compiled,
"gpu_model": null or the name of the GPU that is timed on}; out: {"target", "tvm_version", "features",
"machine", "own_target"}, or {"refused": why}.
"""

import platform
from collections.abc import Mapping
from typing import Any

from checks.target import TargetError, canonical
from sandbox.channel import Channel
from tuner.errors import UnknownTargetError
from tuner.gpu_target import detect_gpu_target
from tuner.target import canonical_of, check_host, detect_local_target, host_features, resolve_tag
from tuner.tvm_light import has_compiler, tvm_version
from workers.cuda_code import load_device_api
from workers.errors import DeviceError


def run(channel: Channel) -> None:
    order, _ = channel.recv()
    try:
        channel.send(_answer(order))
    except (TargetError, UnknownTargetError) as error:
        channel.send({"refused": error.detail})
    except DeviceError as error:
        channel.send({"refused": str(error)})


def _answer(order: Mapping[str, Any]) -> dict[str, Any]:
    features, machine = host_features(), platform.machine()
    compiles, given, gpu_model = has_compiler(), order["target"], order["gpu_model"]
    own = detect_local_target(num_cores=order["num_cores"]) if compiles else None
    runs = own
    if gpu_model is not None:
        load_device_api()
        runs = detect_gpu_target(gpu_model)
        features = [*(features or ()), str(runs["arch"])]
    if given is None and runs is None:
        detail = "without TVM's compiler no CPU's target can be detected: TILEFARM_WORKER_TARGET names one"
        raise TargetError("missing_target", detail)
    target = runs if given is None else _served(given, compiles=compiles)
    assert target is not None
    # Without the compiler, what an mcpu needs is checked by the API alone, which has it.
    if order["times"] and (compiles or target["kind"] != "llvm"):
        check_host(target, features=features, machine=machine)
    return {
        "target": target,
        "own_target": own,
        "tvm_version": tvm_version(),
        "features": features,
        "machine": machine,
    }


def _served(given: Mapping[str, Any], *, compiles: bool) -> dict[str, Any]:
    tagged = set(given) == {"tag"}
    if tagged and not compiles:
        raise TargetError(
            "bad_target", "without TVM's compiler tags are not known: name the target's options"
        )
    if not compiles:
        return canonical(given)
    return resolve_tag(str(given["tag"])) if tagged else canonical_of(given)
