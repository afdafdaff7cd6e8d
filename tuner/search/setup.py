"""What every round of a search shares: the workload, the target, the design spaces and the seed.

A round's random state is its own, and TVM's TuneContext lends its postprocs and features alone: a suggestion
depends on nothing that an earlier one left behind.
"""

import hashlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tuner.errors import SpaceError
from tuner.module import load_module
from tuner.search.options import SearchOptions
from tuner.space.generator import space_generator
from tuner.target import make_target
from tuner.trace import TVM_ERRORS, brief

_logger = logging.getLogger("tilefarm.search")
_logger.addHandler(logging.NullHandler())
_logger.setLevel(logging.CRITICAL)  # TVM writes pages of scores
_logger.propagate = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SearchSetup:
    """Made once per search by `open_setup`."""

    mod: Any
    target: Any
    space: Mapping[str, Any] | None
    seed: int
    options: SearchOptions
    #: TVM schedules whose traces span the space; their decisions are not used.
    design_spaces: tuple[Any, ...]
    #: A TVM TuneContext: the space's postprocs, and what features are extracted in.
    context: Any


def open_setup(
    *,
    module: str,
    target: Mapping[str, Any],
    space: Mapping[str, Any] | None,
    seed: int,
    options: SearchOptions,
) -> SearchSetup:
    """Loads the canonical module and spans the design spaces. Raises a TunerError."""
    mod, tvm_target = load_module(module), make_target(target)
    try:
        context = _context(mod, tvm_target, space, rand_state(seed, "space"), options.num_threads)
        design_spaces = tuple(context.generate_design_space())
    except TVM_ERRORS as error:
        raise SpaceError(f"TVM cannot span the design space: {brief(error)}") from error
    if not design_spaces:
        raise SpaceError("the rules span no design space for this workload")
    return SearchSetup(
        mod=mod,
        target=tvm_target,
        space=space,
        seed=seed,
        options=options,
        design_spaces=design_spaces,
        context=context,
    )


def rand_state(seed: int, *parts: str | int) -> int:
    """TVM's random state, 1..2^31 - 2, from the search's seed and what it is for."""
    text = ":".join(str(part) for part in (seed, *parts))
    return 1 + int.from_bytes(hashlib.sha256(text.encode()).digest()[:8]) % ((1 << 31) - 2)


def _context(mod: Any, target: Any, space: Any, state: int, num_threads: int) -> Any:
    from tvm.s_tir.meta_schedule import TuneContext

    return TuneContext(
        mod=mod,
        target=target,
        space_generator=space_generator(space, target),
        search_strategy="replay-trace",
        task_name="main",
        logger=_logger,
        rand_state=state,
        num_threads=num_threads,
    )
