"""Recognises a contraction that multiplies zeros at a fixed stride: a transposed convolution.

Between the pixels of its image stand stride - 1 zeros, by a condition `(output + tap) % stride == 0`. For all
outputs of one phase (output % stride) the same taps meet zeros, so that split by phases those taps vanish.
"""

from dataclasses import dataclass
from typing import Any

from tuner.expressions import places_in
from tuner.space.contraction import Contraction
from tuner.space.products import guards_of

_SPATIAL, _REDUCTION = 0, 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """The iterators of one condition, by their places among the block's."""

    output: int
    tap: int
    stride: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Phased:
    #: Its columns have no phases.
    contraction: Contraction
    phases: tuple[Phase, ...]
    #: Whether a pixel lies in the image is decided at each read, not by a copy with a rim of zeros.
    is_bounded: bool


def phased_of(block: Any) -> Phased | None:
    """The phases of a TVM block that is a contraction; None where it has none."""
    if block.init is None or not hasattr(block.body, "value"):
        return None
    guards = guards_of(block)
    phases = tuple(phase for guard in guards if (phase := _phase(block, guard)) is not None)
    outputs, taps = {phase.output for phase in phases}, {phase.tap for phase in phases}
    if not phases or len(outputs) != len(phases) or len(taps) != len(phases):
        return None
    for contraction in (Contraction.of(block, guarded=True), Contraction.turned(block, guarded=True)):
        if contraction is not None and outputs <= {axis.place for axis in contraction.rows}:
            return Phased(contraction=contraction, phases=phases, is_bounded=len(phases) < len(guards))
    return None


def absorb_dilation(schedule: Any, block: Any) -> None:
    """Makes part of the block what puts zeros between the pixels, and all that stands between the two."""
    for producer in schedule.get_producers(block):
        if _dilates(schedule, producer):
            absorb_dilation(schedule, producer)
            schedule.compute_inline(producer)


def _dilates(schedule: Any, block: Any) -> bool:
    """It, or what it is made from; each block is looked at once, however many ways lead to it."""
    seen: set[str] = set()
    waiting = [block]
    while waiting:
        node = schedule.get(each := waiting.pop())
        if str(node.name_hint) in seen or node.init is not None or not hasattr(node.body, "value"):
            continue
        if any(_divisor(guard) is not None for guard in guards_of(node)):
            return True
        seen.add(str(node.name_hint))
        waiting += schedule.get_producers(each)
    return False


def _phase(block: Any, guard: Any) -> Phase | None:
    stride = _divisor(guard)
    if stride is None:
        return None
    kinds = {place: int(block.iter_vars[place].iter_type) for place in places_in(block, [guard])}
    outputs = [place for place, kind in kinds.items() if kind == _SPATIAL]
    taps = [place for place, kind in kinds.items() if kind == _REDUCTION]
    if len(outputs) != 1 or len(taps) != 1:
        return None
    return Phase(output=outputs[0], tap=taps[0], stride=stride)


def _divisor(guard: Any) -> int | None:
    """The constant of a condition `something % constant == 0`."""
    if type(guard).__name__ != "EQ" or getattr(guard.b, "value", None) != 0:
        return None
    rest = guard.a
    if type(rest).__name__ != "FloorMod" or type(rest.b).__name__ != "IntImm":
        return None
    return int(rest.b.value)
