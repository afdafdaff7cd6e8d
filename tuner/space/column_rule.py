"""Columns in one pass: softmax, normalisations along an axis whose neighbours lie apart."""

from functools import partial
from typing import Any

from tuner.space.column_nest import write_columns
from tuner.space.columns import columns_of
from tuner.space.offering import is_untouched, written
from tuner.space.vectors import vector_unit


def passed_down(schedule: Any, block: Any, target: Any) -> list[Any]:
    """A schedule for each way to pass over the columns; none where nothing is made of those it keeps."""
    if not is_untouched(schedule, block):
        return []
    node = schedule.get(block)
    unit = vector_unit(target, str(node.writes[0].source.dtype))
    found = columns_of(schedule, block, unit, cores=int(target.attrs.get("num-cores", 1)))
    writes = [partial(lambda copy, _block, way: write_columns(copy, way), way=way) for way in found]
    return written(schedule, str(node.name_hint), writes)
