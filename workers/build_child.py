"""The entry of the disposable child that builds one candidate for another worker to time; it loads nothing.

Order in: {"module", "trace", "target", "linker"}. It leaves LIBRARY_NAME in its directory. Out: {"built":
true, "stage_secs"}, or the final answer {"outcome", "run_secs", "error", "stage_secs"}.
"""

from pathlib import Path

from db.states import Outcome
from sandbox.channel import Channel
from workers.program import compile_module, link_library, load_module, replay
from workers.stages import Ended, Stages


def run(channel: Channel) -> None:
    order, _ = channel.recv()
    stages = Stages()
    try:
        with stages.stage("replay", Outcome.REJECTED):
            scheduled = replay(load_module(order["module"]), order["trace"])
        with stages.stage("build", Outcome.BUILD_ERROR):
            runtime = compile_module(scheduled, order["target"])
            link_library(runtime, linker=order["linker"], directory=Path.cwd())
    except Ended as ended:
        channel.send({**ended.answer(), "stage_secs": stages.secs})
    else:
        channel.send({"built": True, "stage_secs": stages.secs})
