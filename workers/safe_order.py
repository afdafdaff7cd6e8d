"""A fixed loop order that is right for every workload and fast enough for a reference.

Spatial loops, then reduction loops, then the innermost spatial loop, so that LLVM vectorises across
independent elements; reductions are split into initialisation and update; the outermost loop is parallel. A
block whose schedule TVM refuses is left as it is written.
"""

import contextlib
from typing import Any

from tuner.tvm_light import load_tvm


def in_safe_order(module: Any) -> Any:
    load_tvm()
    from tvm.s_tir import Schedule

    schedule = Schedule(module, debug_mask="none", error_render_level="fast")
    for block in schedule.get_child_blocks(schedule.get_sblock("root", func_name="main")):
        with contextlib.suppress(_schedule_error()):
            _order(schedule, block)
    return schedule.mod


def _schedule_error() -> type[Exception]:
    from tvm.s_tir.schedule import ScheduleError

    error: type[Exception] = ScheduleError
    return error


def _order(schedule: Any, block: Any) -> None:
    from tvm.tirx import IterVar

    loops = schedule.get_loops(block)
    kinds = [axis.iter_type for axis in schedule.get(block).iter_vars]
    if len(kinds) != len(loops):
        return
    spatial = [loop for loop, kind in zip(loops, kinds, strict=True) if kind == IterVar.DataPar]
    reduction = [loop for loop, kind in zip(loops, kinds, strict=True) if kind == IterVar.CommReduce]
    if not reduction:
        if spatial:
            schedule.parallel(spatial[0])
        return
    if len(spatial) > 1:
        schedule.reorder(*spatial[:-1], *reduction, spatial[-1])
    if spatial:
        schedule.parallel(spatial[0])
    schedule.decompose_reduction(block, reduction[0])
