"""Functions without a sum: in lines that lie alike everywhere, or in squares that are transposed."""

from functools import partial
from typing import Any

from tuner.space.fetched import fetches
from tuner.space.injective import injectives_of, stands_alone, write_injective
from tuner.space.marks import is_ours
from tuner.space.offering import written
from tuner.space.vectors import vector_unit


def one_by_one(schedule: Any, block: Any, target: Any) -> list[Any]:
    """A schedule for each way to write the block; none where something sums or another was asked."""
    if is_ours(schedule) or not stands_alone(schedule, block) or fetches(schedule, block):
        return []
    node = schedule.get(block)
    unit = vector_unit(target, str(node.writes[0].source.dtype))
    ways = injectives_of(schedule, block, unit, cores=int(target.attrs.get("num-cores", 1)))
    return written(schedule, str(node.name_hint), [partial(write_injective, way=way) for way in ways])
