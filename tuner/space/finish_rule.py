"""What stands at the root beside a tiled contraction gets parallel and vectorised loops; the rest is stock's.

Stock's ParallelizeVectorizeUnroll annotates the whole function, and its postproc then rewrites every nest: it
would fuse and split loops that a plan has placed, and refuses a function with a sum that may not be parallel.
So it is asked only where no plan was written, and no sum goes on from what its output holds.
"""

import math
from contextlib import suppress
from typing import Any

from tuner.space.calls import may_be_vectors
from tuner.space.marks import STRUCTURE, TILED, is_ours, mark
from tuner.space.padding import write_lines
from tuner.space.registers import MIN_PARALLEL_ELEMENTS, fused
from tuner.space.rows import line_of
from tuner.space.staging import summing
from tuner.space.tiling_rule import goes_on
from tuner.space.vectors import vector_unit
from tuner.trace import TVM_ERRORS

#: As stock's rule shares out.
_JOBS_PER_CORE = 16
#: Vectors of a line that costs little to begin.
_LONG_LINE = 8
#: Of a few long lines.
_PIECES_PER_CORE = 4
_SERIAL = 0


def finish_rule(stock: Any) -> Any:
    """A TVM ScheduleRule in place of `stock`, the target's ParallelizeVectorizeUnroll."""
    from tvm.ir.utils import derived_object
    from tvm.s_tir.meta_schedule.schedule_rule import PyScheduleRule

    @derived_object
    class FinishRule(PyScheduleRule):
        def __init__(self) -> None:
            super().__init__()
            self.target: Any = None
            self.others = stock
            self.is_stocks = True

        def _initialize_with_tune_context(self, context: Any) -> None:
            self.target = context.target
            blocks = [] if context.mod is None else _blocks(context.mod)
            self.is_stocks = not any(goes_on(block) for block in blocks)
            if not all(may_be_vectors(block) for block in blocks):
                self.others = _parallel_alone()
            self.others._initialize_with_tune_context(context)  # noqa: SLF001 - TVM calls it so

        def apply(self, sch: Any, block: Any) -> list[Any]:
            if sch.get(block).name_hint != "root":  # stock's leaves it alone as well
                return [sch]
            if self.is_stocks and not is_ours(sch):
                return list(self.others.apply(sch, block))
            _finish(sch, block, self.target)
            return [sch]

        def clone(self) -> Any:
            return finish_rule(stock.clone())

    return FinishRule()


def _blocks(mod: Any) -> list[Any]:
    return [block for _, func in mod.functions_items() for block in _blocks_in(func.body)]


def _blocks_in(statement: Any) -> list[Any]:
    import tvm_ffi
    from tvm.s_tir import SBlock

    found: list[Any] = []
    tvm_ffi.structural_walk(statement, (SBlock, found.append))
    return found


def _parallel_alone() -> Any:
    """Stock's rule without vectors and unrolling: it annotates the whole function."""
    from tvm.s_tir.meta_schedule.schedule_rule import ParallelizeVectorizeUnroll

    return ParallelizeVectorizeUnroll(max_vectorize_extent=-1, unroll_max_steps=[])


def _finish(schedule: Any, root: Any, target: Any) -> None:
    for block in schedule.get_child_blocks(root):
        if str(schedule.get(block).annotations.get(TILED, "")) != STRUCTURE:
            finish = _share_out if _is_written(schedule, block) else _finish_nest
            # Not every nest may be parallel: one may update a parameter in place, or scatter.
            with suppress(*TVM_ERRORS):
                finish(schedule, block, target)
            mark(schedule, block)


def _is_written(schedule: Any, block: Any) -> bool:
    """A rule of ours or of stock's has placed its loops, or put other blocks among them."""
    loops = list(schedule.get_loops(block))
    return len(loops) != len(schedule.get(block).iter_vars) or (
        bool(loops) and len(_blocks_in(schedule.get(loops[0]))) > 1
    )


def _share_out(schedule: Any, block: Any, target: Any) -> None:
    """The outermost loops go over the cores, if nobody has said so yet. Raises what TVM raises."""
    extents = [int(axis.dom.extent) for axis in schedule.get(block).iter_vars]
    enough = _JOBS_PER_CORE * int(target.attrs.get("num-cores", 1))
    outer: list[Any] = []
    for loop, sums in zip(schedule.get_loops(block), summing(schedule, block), strict=True):
        node = schedule.get(loop)
        if sums or int(node.kind) != _SERIAL:
            break
        outer.append(loop)
        if type(node.body).__name__ != "For" or _product(schedule, outer) >= enough:
            break
    if outer and math.prod(extents) >= MIN_PARALLEL_ELEMENTS:
        schedule.parallel(fused(schedule, outer))


def _product(schedule: Any, loops: list[Any]) -> int:
    return math.prod(int(schedule.get(loop).extent) for loop in loops)


def _finish_nest(schedule: Any, block: Any, target: Any) -> None:
    """Spatial loops but the innermost go over the cores; a last axis of whole vectors is vectorised.

    Raises what TVM raises where it cannot; what was done until then stands.
    """
    node = schedule.get(block)
    loops = list(schedule.get_loops(block))
    spatial = [int(axis.iter_type) == 0 for axis in node.iter_vars]
    if not spatial or len(loops) != len(spatial) or not spatial[0]:
        return
    extents = [int(axis.dom.extent) for axis in node.iter_vars]
    lanes = vector_unit(target, str(node.writes[0].source.dtype)).lanes
    is_long = math.prod(extents) >= MIN_PARALLEL_ELEMENTS
    enough = _PIECES_PER_CORE * int(target.attrs.get("num-cores", 1)) if is_long else 1
    first = None if all(spatial) else spatial.index(False)
    outer = loops[:first]
    if first is None:
        loops = _with_long_lines(schedule, loops, node, lanes=lanes)
        outer = write_lines(schedule, loops, node, lanes=lanes, enough=enough)
    if outer and is_long:
        schedule.parallel(fused(schedule, outer))
    if first is not None and node.init is not None:
        schedule.decompose_reduction(block, loops[first])


def _with_long_lines(schedule: Any, loops: list[Any], node: Any, *, lanes: int) -> list[Any]:
    """Loops that go along one line of all buffers are one, where the last is short and no whole vectors.

    192 images of 14 x 14, each scaled, then one tap to 14 channels took 29 µs line by line, 6.4 so (Zen 5).
    """
    extents = [int(schedule.get(loop).extent) for loop in loops]
    n, length = 1, extents[-1]
    if length % lanes == 0:
        return loops
    most = min(line_of(node, 0).n_axes, len(loops) - 1)
    while n < most and length < _LONG_LINE * lanes:
        n, length = n + 1, length * extents[-n - 1]
    return [*loops[:-n], fused(schedule, loops[-n:])]
