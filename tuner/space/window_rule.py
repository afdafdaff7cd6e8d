"""Register-tiled forms of small windows: depthwise convolutions and poolings."""

from functools import partial
from typing import Any

from tuner.space.columns import is_shared_out
from tuner.space.contraction import Contraction
from tuner.space.offering import is_untouched, written
from tuner.space.vectors import vector_unit
from tuner.space.window_nest import write_window
from tuner.space.windows import windows_of


def passed_over(schedule: Any, block: Any, target: Any) -> list[Any]:
    """A schedule for each way to pass the window over its outputs.

    None where the block is no window, or the first of several passes over the same columns.
    """
    node = schedule.get(block)
    if not is_untouched(schedule, block) or Contraction.of(node) is not None:
        return []
    unit, cores = vector_unit(target, str(node.writes[0].source.dtype)), int(target.attrs.get("num-cores", 1))
    windows = windows_of(schedule, block, unit)
    if windows and is_shared_out(schedule, block, unit, cores=cores):
        return []
    return written(
        schedule, str(node.name_hint), [partial(write_window, window=window) for window in windows]
    )
