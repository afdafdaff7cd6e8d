"""What a block chooses by: padding, joined operands, rotary embeddings."""

import math
import operator
from typing import Any

import numpy as np

from tuner.addresses import UnknownError, value_of
from tuner.expressions import places_in
from tuner.space.calls import parts_of

#: Elements of a part of a line, and parts: each is a loop.
_MIN_PART, _MAX_PARTS = 8, 16
_COMPARED = {
    "LT": operator.lt,
    "LE": operator.le,
    "GT": operator.gt,
    "GE": operator.ge,
    "EQ": operator.eq,
    "NE": operator.ne,
}


def choosing_places(node: Any) -> frozenset[int]:
    """Places of the axes on which a choice depends."""
    return places_in(node, conditions_of(node))


def n_parts_of(node: Any) -> int:
    """Of the last axis, so that every choice falls alike within a part; 1 where no such parts are long."""
    last, extent = len(node.iter_vars) - 1, int(node.iter_vars[-1].dom.extent)
    values: dict[Any, Any] = {axis.var: 0 for axis in node.iter_vars}
    values[node.iter_vars[last].var] = np.arange(extent)
    borders = [0]
    for part in (part for condition in conditions_of(node) for part in parts_of(condition)):
        compared = _COMPARED.get(type(part).__name__)
        if compared is None or last not in places_in(node, [part]):
            continue
        try:
            holds = compared(value_of(part.a, values), value_of(part.b, values))
        except UnknownError:
            return 1
        borders += [int(at) + 1 for at in np.flatnonzero(np.diff(holds))]
    part_extent = math.gcd(extent, *borders)
    n_parts = extent // part_extent
    return n_parts if part_extent >= _MIN_PART and n_parts <= _MAX_PARTS else 1


def conditions_of(node: Any) -> list[Any]:
    """On which its value depends."""
    return [
        part.condition if hasattr(part, "condition") else part.args[0]
        for part in parts_of(node.body)
        if hasattr(part, "condition")
        or str(getattr(getattr(part, "op", None), "name", "")).endswith("if_then_else")
    ]
