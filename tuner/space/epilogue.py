"""The one block that reads a contraction's output element by element: bias, residual, activation.

It can be computed behind each tile of the output, while the tile is in cache. A block that reduces, reads the
output in another order than its own, reads what another block makes as well (the gates of an LSTM), or is one
of several readers is left where it is, as is one that has its schedule.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tuner.expressions import loads_of
from tuner.space.contraction import Contraction
from tuner.space.marks import is_marked


@dataclass(frozen=True, slots=True, kw_only=True)
class Epilogue:
    block: Any
    #: For each of its axes, the contraction's axis (by place) that it follows.
    places: tuple[int, ...]


def epilogue_of(schedule: Any, block: Any, contraction: Contraction) -> Epilogue | None:
    consumers = schedule.get_consumers(block)
    if len(consumers) != 1 or len(schedule.get_producers(consumers[0])) != 1:
        return None
    if is_marked(schedule.get(consumers[0])):
        return None
    places = _places(schedule.get(block), schedule.get(consumers[0]))
    spatial = (*contraction.batch, *contraction.rows, *contraction.columns)
    if places is None or sorted(places) != sorted(axis.place for axis in spatial):
        return None
    return Epilogue(block=consumers[0], places=places)


def _places(block: Any, consumer: Any) -> tuple[int, ...] | None:
    """Both index the output by plain iterators, each by all of its own."""
    written = [_place(block, index) for index in block.body.indices]
    if any(int(axis.iter_type) != 0 for axis in consumer.iter_vars):
        return None
    follows: dict[int, int] = {}
    for load in loads_of(consumer.body):
        if not load.source.same_as(block.body.buffer):
            continue
        read = [_place(consumer, index) for index in load.indices]
        if None in read or None in written:
            return None
        found: Mapping[int, int] = dict(zip(read, written, strict=True))  # type: ignore[arg-type]  # no None
        if follows and found != follows:
            return None
        follows = dict(found)
    if sorted(follows) != list(range(len(consumer.iter_vars))):
        return None
    return tuple(follows[place] for place in sorted(follows))


def _place(block: Any, index: Any) -> int | None:
    found = [place for place, axis in enumerate(block.iter_vars) if axis.var.same_as(index)]
    return found[0] if found else None
