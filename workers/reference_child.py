"""The entry of the child that computes a workload's expected outputs on llvm, without any searched schedule.

Order in: {"module", "target", "rule"}. It writes the reference's files into `reference/` of its own
directory and answers {"done": true, "stage_secs"}; what goes wrong leaves it as an exception.
"""

import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from sandbox.channel import Channel
from sandbox.seccomp import forbid_processes
from tuner.tvm_light import load_tvm
from workers.inputs import Array, InputRule, Parameter, make_inputs
from workers.program import (
    Program,
    compile_module,
    link,
    load_module,
    output_indices,
    parameters,
    reduction_length,
)
from workers.reference_files import unpack_reference, write_reference
from workers.safe_order import in_safe_order
from workers.timing import start_thread_pool

#: Below this the workload runs as it is written: half a second at worst.
UNSCHEDULED_FLOPS = 2e8


def run(channel: Channel) -> None:
    order, _ = channel.recv()
    began = time.perf_counter()
    tvm = load_tvm()
    from tvm.s_tir.analysis import estimate_tir_flops

    module = load_module(order["module"])
    wanted, indices, length = parameters(module), output_indices(module), reduction_length(module)
    scheduled = module if estimate_tir_flops(module) <= UNSCHEDULED_FLOPS else in_safe_order(module)
    runtime = compile_module(scheduled, order["target"])
    start_thread_pool(len(os.sched_getaffinity(0)))
    load = link(runtime, linker=order["linker"], directory=Path.cwd())
    forbid_processes()
    program = load()
    rule = InputRule(**order["rule"])
    inputs = make_inputs(wanted, rule, reduction_length=length)
    outputs = _compute(tvm, program, wanted, indices, inputs)
    positive = any(_has_nan(array) for array in outputs.values())
    if positive:
        inputs = make_inputs(wanted, replace(rule, positive_floats=True), reduction_length=length)
        outputs = _compute(tvm, program, wanted, indices, inputs)
    write_reference(
        Path("reference"),
        parameters=wanted,
        inputs=inputs,
        outputs=outputs,
        reduction_length=length,
        positive_floats=positive,
    )
    channel.send({"done": True, "stage_secs": time.perf_counter() - began})


def restore(channel: Channel) -> None:
    """Order in: {"rule"} and what another host packed; the same files, the inputs made here."""
    order, blobs = channel.recv()
    unpack_reference(blobs[0], Path("reference"), InputRule(**order["rule"]))
    channel.send({"done": True})


def _compute(
    tvm: Any, program: Program, wanted: list[Parameter], indices: list[int], inputs: list[Array]
) -> dict[int, Array]:
    tensors = [tvm.runtime.empty(array.shape, item.dtype) for array, item in zip(inputs, wanted, strict=True)]
    for tensor, array in zip(tensors, inputs, strict=True):
        tensor.copyfrom(array)
    program.call(*tensors)
    return {index: tensors[index].numpy() for index in indices}


def _has_nan(array: Array) -> bool:
    return array.dtype.kind not in "iub" and bool(np.isnan(array.astype(np.float64)).any())
