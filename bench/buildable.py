"""Which schedules build in time: tried in disposable children, before a benchmark builds them in its process.

Nothing can stop LLVM within a process, and some schedules compile for minutes, or for ever.
"""

import json
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from sandbox.channel import Channel
from sandbox.errors import ChildDied, ChildTimeout
from sandbox.fork_server import ForkServer
from sandbox.limits import Limits

#: Stock's builder gives a candidate as long.
LIMIT_SECS = 30.0
_STARTS = ["workers.preload", "bench.buildable"]


def unbuildable(
    module: str, traces: Sequence[Any], target: Mapping[str, Any], *, limit_secs: float = LIMIT_SECS
) -> dict[int, str]:
    """By index, why a schedule does not build within the limit. None stands for the untuned module."""
    with ForkServer(_STARTS) as server, ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:

        def tried(trace: Any) -> str | None:
            return _tried(server, {"module": module, "trace": trace, "target": dict(target)}, limit_secs)

        reasons = list(pool.map(tried, traces))
    return {index: reason for index, reason in enumerate(reasons) if reason is not None}


def run(channel: Channel) -> None:
    """In the child: {"module", "trace", "target"} built as a worker builds it. What fails leaves as it is."""
    from workers.program import compile_module, load_module, replay

    order, _ = channel.recv()
    scheduled = load_module(order["module"])
    if order["trace"] is not None:
        scheduled = replay(scheduled, json.dumps(order["trace"]))
    compile_module(scheduled, order["target"]).write_to_file("kernel.o", "o")
    channel.send({"built": True})


def _tried(server: ForkServer, order: Mapping[str, Any], limit_secs: float) -> str | None:
    with server.spawn("bench.buildable:run", limits=Limits(cpu_secs=limit_secs + 1)) as child:
        child.send(order)
        try:
            child.recv(limit_secs)
        except ChildTimeout:
            return f"it did not build within {limit_secs:g} s"
        except ChildDied as error:
            return error.reason
    return None
