"""The innermost blocks of a scheduled module: each stores an element, in the loops around it."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tuner.addresses import Ints, address_of, constant, value_of
from tuner.expressions import loads_of

_REDUCTION = 2


@dataclass(frozen=True, slots=True)
class Leaf:
    """A block that stores an element, and the loops around it from the outside."""

    realize: Any
    #: TVM's For statements.
    loops: tuple[Any, ...]

    @property
    def extents(self) -> list[int]:
        """Raises UnknownError."""
        return [constant(loop.extent) for loop in self.loops]

    @property
    def weight(self) -> float:
        """Iterations; those of a reduction count more. Raises UnknownError."""
        kinds = (int(iterator.iter_type) for iterator in self.realize.block.iter_vars)
        return math.prod(self.extents) * (2 if _REDUCTION in kinds else 1)

    def touched(self) -> Iterator[tuple[Any, Any]]:
        """(buffer, indices) of what is stored, then of what is loaded."""
        store = self.realize.block.body
        yield store.buffer, store.indices
        yield from ((load.source, load.indices) for load in loads_of(store))

    def addresses(self, buffer: Any, indices: Any, places: Ints) -> Ints:
        """Byte offsets of an access, int64 [n_points], at `places` [n_loops, n_points]: steps of each loop.

        Raises UnknownError.
        """
        outside = {loop.loop_var: steps for loop, steps in zip(self.loops, places, strict=True)}
        pairs = zip(self.realize.block.iter_vars, self.realize.iter_values, strict=True)
        bound = {iterator.var: value_of(value, outside) for iterator, value in pairs}
        return address_of(buffer, [value_of(index, bound) for index in indices], places.shape[1])


def leaves(mod: Any) -> Iterator[Leaf]:
    """In the order of the program."""
    return _leaves(mod["main"].body, ())


def _leaves(statement: Any, loops: tuple[Any, ...]) -> Iterator[Leaf]:
    from tvm import s_tir, tirx

    if isinstance(statement, tirx.For):
        yield from _leaves(statement.body, (*loops, statement))
    elif isinstance(statement, tirx.SeqStmt):
        for each in statement.seq:
            yield from _leaves(each, loops)
    elif isinstance(statement, s_tir.SBlockRealize):
        body = statement.block.body
        if isinstance(body, tirx.BufferStore):
            yield Leaf(statement, loops)
        else:
            yield from _leaves(body, loops)
