"""The entry of the child that asks TVM what CPU it runs on, and whether a target fits it.

Order in: {"num_cores", "target": null or a dict, "times": whether this host runs what is compiled}; out:
{"target", "tvm_version", "features", "machine", "own_target"}, or {"refused": why}.
"""

import platform
from collections.abc import Mapping
from typing import Any

from checks.target import TargetError, canonical
from sandbox.channel import Channel
from tuner.errors import UnknownTargetError
from tuner.target import canonical_of, check_host, detect_local_target, host_features
from tuner.tvm_light import has_compiler, tvm_version


def run(channel: Channel) -> None:
    order, _ = channel.recv()
    try:
        channel.send(_answer(order))
    except (TargetError, UnknownTargetError) as error:
        channel.send({"refused": error.detail})


def _answer(order: Mapping[str, Any]) -> dict[str, Any]:
    features, machine = host_features(), platform.machine()
    given = order["target"]
    if not has_compiler():
        if given is None:
            detail = "without TVM's compiler no target can be detected: TILEFARM_WORKER_TARGET names one"
            raise TargetError("missing_target", detail)
        # What the mcpu needs is checked by the API, which has the compiler.
        own, target = None, canonical(given)
    else:
        own = detect_local_target(num_cores=order["num_cores"])
        target = own if given is None else canonical_of(given)
        if order["times"]:
            check_host(target, features=features, machine=machine)
    return {
        "target": target,
        "own_target": own,
        "tvm_version": tvm_version(),
        "features": features,
        "machine": machine,
    }
