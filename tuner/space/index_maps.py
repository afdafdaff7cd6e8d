"""Index maps that fuse a contraction's axes: (rows, columns, depth) out of any number of iterators."""

from collections.abc import Callable, Sequence
from typing import Any

from tuner.expressions import has_division, is_load
from tuner.space.axes import Axis
from tuner.space.calls import parts_of

#: Final indices from a variable per iterator, by place.
Final = Callable[[dict[int, Any]], list[Any]]


def index_map(places: Sequence[int], final: Final) -> Any:
    """The IndexMap of a buffer or a block whose axes are these iterators, in this order."""
    from tvm.tirx import IndexMap, Var

    variables = {place: Var(f"v{place}", "int32") for place in places}
    return IndexMap(list(variables.values()), final(variables), None)


def fused(variables: dict[int, Any], axes: Sequence[Axis]) -> Any:
    """One index of all axes, the last one fastest; zero where there is none."""
    from tvm.tirx import const

    result: Any = const(0, "int32")
    for axis in axes:
        result = result * axis.extent + variables[axis.place]
    return result


def fusing(places: Sequence[int], parts: Sequence[Sequence[Axis]]) -> Any:
    """The IndexMap that makes one axis of each part."""
    return index_map(places, lambda variables: [fused(variables, axes) for axes in parts])


def simplify_places(schedule: Any, block: Any) -> None:
    """Of a block whose loads divide iterators: a layout of the same axes makes TVM simplify their indices."""
    node = schedule.get(block)
    loads = [part for part in parts_of(node.body) if is_load(part)]
    if any(has_division(index) for load in loads for index in load.indices):
        places = range(len(node.iter_vars))
        schedule.transform_block_layout(block, index_map(places, lambda v: [v[place] for place in places]))
