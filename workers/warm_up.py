"""One build in the fork server itself, before it forks: children find LLVM started and TVM's passes imported.

Else every child pays for that anew: a sixth of a matrix product's build. It starts no thread.
"""

import tempfile
from pathlib import Path
from typing import Any

from tuner.errors import TunerError
from tuner.target import detect_local_target
from tuner.tvm_light import load_tvm
from workers.program import ENTRY, compile_module

#: Extents of the matrix product: several of each tile below.
_EXTENT = 128


def warm_up() -> None:
    """Build a tiled, vectorised, parallel matrix product for this CPU, and drop it.

    A host on which that cannot be done says why with its first candidate.
    """
    try:
        runtime = compile_module(_product(), detect_local_target(num_cores=1))
        with tempfile.TemporaryDirectory() as directory:
            runtime.write_to_file(str(Path(directory) / "kernel.o"), "o")
    except (TunerError, RuntimeError, ValueError, OSError):
        return


def _product() -> Any:
    """What a search's candidates look like to the compiler."""
    tvm = load_tvm()
    from tvm import te
    from tvm.s_tir import Schedule

    left, right = (te.placeholder((_EXTENT, _EXTENT), name=name) for name in "AB")
    along = te.reduce_axis((0, _EXTENT), name="k")
    product = te.compute(
        (_EXTENT, _EXTENT), lambda i, j: te.sum(left[i, along] * right[along, j], axis=along), name="C"
    )
    schedule = Schedule(tvm.IRModule({ENTRY: te.create_prim_func([left, right, product])}))
    block = schedule.get_sblock("C")
    rows, columns, depth = schedule.get_loops(block)
    row_parts = schedule.split(rows, [None, 2, 8])
    column_parts = schedule.split(columns, [None, 2, 16])
    depth_parts = schedule.split(depth, [None, 4])
    order = (row_parts[0], column_parts[0], row_parts[1], column_parts[1])
    schedule.reorder(*order, *depth_parts, row_parts[2], column_parts[2])
    schedule.parallel(schedule.fuse(*order[:2]))
    schedule.vectorize(column_parts[2])
    schedule.unroll(row_parts[2])
    schedule.decompose_reduction(block, depth_parts[0])
    return schedule.mod
