"""The design spaces of a workload: TVM's SpaceGenerator for stock's rules, for ours, or for submitted traces.

Nothing is searched here. Rules of ours stand in tuner.space.rules; the rest is TVM's
(python/tvm/s_tir/meta_schedule/{schedule_rule,postproc,mutator}).
"""

from collections.abc import Mapping
from typing import Any

from checks.space import NAMED
from tuner.errors import SpaceError, TraceError
from tuner.space.rules import stocks_own, with_ours
from tuner.trace import apply_trace
from tuner.tvm_light import load_tvm


def space_generator(space: Mapping[str, Any] | None, target: Any) -> Any:
    """A fresh TVM SpaceGenerator: stock's rules for None, ours by their name, else the traces replayed.

    {"rules": "tilefarm", "only": [names]} has some of our rules alone; no API takes it. Raises SpaceError for
    rules that there are not.
    """
    load_tvm()
    from tvm.s_tir.meta_schedule.space_generator import ScheduleFn

    if space is None:
        return stocks_own(target)
    if "rules" in space:
        if {"rules": space["rules"]} not in NAMED.values():
            raise SpaceError(f"there are no rules {space['rules']!r}")
        return with_ours(target, only=space.get("only"))
    traces = space["traces"]

    def replay(schedule: Any) -> list[Any]:
        return [apply_trace(trace, schedule.mod) for trace in traces]

    return ScheduleFn(
        replay,
        sch_rules=[],
        postprocs=_postprocs(space.get("postprocs"), target),
        mutator_probs=_mutators(space.get("mutators"), target),
    )


def check_space(space: Mapping[str, Any], mod: Any) -> None:
    """SpaceError where a trace of a canonical space does not apply to the workload."""
    for index, trace in enumerate(space["traces"]):
        try:
            apply_trace(trace, mod)
        except TraceError as error:
            raise SpaceError(f"trace {index}: {error.detail}") from error


def _postprocs(names: list[str] | None, target: Any) -> Any:
    from tvm.s_tir.meta_schedule import postproc

    if names is None:
        return "from-target"
    stock = {type(item).__name__: item for item in postproc.Postproc.create(str(target.kind.name))}
    return [stock[name] if name in stock else getattr(postproc, name)() for name in names]


def _mutators(weights: Mapping[str, float] | None, target: Any) -> Any:
    """Mutators are taken from TVM's default sets, where they carry their stock parameters."""
    from tvm.s_tir.meta_schedule.mutator import Mutator

    if weights is None:
        return "from-target"
    stock = {}
    for kind in ("cuda", "llvm", str(target.kind.name)):
        stock.update({type(mutator).__name__: mutator for mutator in Mutator.create(kind)})
    return {stock[name]: weight for name, weight in weights.items()}
