"""The annotation on what has a nest of ours, by which stock's rules and ours know to leave it alone."""

from typing import Any, Final

#: Keeps stock's tiling and random compute locations away from what stands here.
TILED: Final = "meta_schedule.tiling_structure"
#: The nest that tuner.space.tiling makes; no stock rule writes it.
STRUCTURE: Final = "SSRSSRSS"


def mark(schedule: Any, block: Any) -> None:
    schedule.annotate(block, TILED, STRUCTURE)


def is_marked(node: Any) -> bool:
    """A block that is scheduled, by a rule of ours or by stock's tiling."""
    return TILED in node.annotations


def is_ours(schedule: Any) -> bool:
    """A form of ours was written into it."""
    return any(
        str(instruction.inputs[1]) == STRUCTURE
        for instruction in schedule.trace.insts
        if str(instruction.kind.name) == "Annotate" and str(instruction.attrs[0]) == TILED
    )
