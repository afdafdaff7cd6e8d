"""The entry of the child that asks TVM what CPU it runs on.

Order in: {"num_cores"}; out: {"target", "tvm_version"}.
"""

from sandbox.channel import Channel
from tuner.target import detect_local_target
from tuner.tvm_light import tvm_version


def run(channel: Channel) -> None:
    order, _ = channel.recv()
    target = detect_local_target(num_cores=order["num_cores"])
    channel.send({"target": target, "tvm_version": tvm_version()})
