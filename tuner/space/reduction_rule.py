"""Plain reductions: columns as vectors, or vectors of partial results, whatever their axes are."""

import math
from functools import partial
from typing import Any

from tuner.space.columns import is_shared_out
from tuner.space.offering import is_untouched, written
from tuner.space.reduction_nest import write_reduction
from tuner.space.reductions import reductions_of
from tuner.space.rows import in_rows, n_blocks_of_rows
from tuner.space.vectors import vector_unit
from tuner.space.windows import windows_of


def reduced(schedule: Any, block: Any, target: Any) -> list[Any]:
    """A schedule for each way to write the block; none where rows, columns or windows are ways already.

    A block of rows may still be summed in pieces, where they are too few for the cores; one of several blocks
    of the same rows, where these are fewer than the cores.
    """
    if not is_untouched(schedule, block):
        return []
    node = schedule.get(block)
    unit = vector_unit(target, str(node.writes[0].source.dtype))
    lined = in_rows(schedule, block)
    n_blocks = n_blocks_of_rows(lined, lined.get_sblock(str(node.name_hint)), unit)
    cores = int(target.attrs.get("num-cores", 1))
    n_results = math.prod(int(extent) for extent in node.writes[0].source.shape)
    if (n_blocks > 1 and n_results >= cores) or is_shared_out(schedule, block, unit, cores=cores):
        return []
    if windows_of(schedule, block, unit):
        return []
    ways = reductions_of(schedule, block, unit, cores=cores)
    writes = [partial(write_reduction, way=way) for way in ways if n_blocks == 0 or way.pieces > 1]
    return written(schedule, str(node.name_hint), writes)
