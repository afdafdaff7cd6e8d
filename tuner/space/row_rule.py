"""Rows in one pass: softmax, normalisations, sums along contiguous rows."""

from functools import partial
from typing import Any

from tuner.space.offering import is_untouched, written
from tuner.space.row_nest import write_rows
from tuner.space.rows import in_rows, rows_of
from tuner.space.vectors import vector_unit


def passed_through(schedule: Any, block: Any, target: Any) -> list[Any]:
    """A schedule for each way to pass over the rows; none where the block reduces no rows."""
    if not is_untouched(schedule, block):
        return []
    node = schedule.get(block)
    name, unit = str(node.name_hint), vector_unit(target, str(node.writes[0].source.dtype))
    lined = in_rows(schedule, block)
    found = rows_of(lined, lined.get_sblock(name), unit)
    writes = [partial(lambda copy, _block, way: write_rows(copy, way), way=way) for way in found]
    return written(lined, name, writes)
