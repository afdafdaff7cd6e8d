"""The schedule rules of each named space. A rule of one's own is one more `offering` in `_with_ours`."""

from typing import Any

from tuner.space.contraction_rule import tiled
from tuner.space.finish_rule import finish_rule
from tuner.space.offering import offering
from tuner.space.window_rule import passed_over


def schedule_rules(target: Any) -> list[Any]:
    """TVM's default rules with ours among them, each a choice beside stock's; on a GPU, TVM's alone."""
    from tvm.s_tir.meta_schedule.schedule_rule import ScheduleRule

    kind = str(target.kind.name)
    stock = list(ScheduleRule.create(kind))
    return _with_ours(stock) if kind == "llvm" else stock


def _with_ours(stock: list[Any]) -> list[Any]:
    """Ours see a block after inlining and before anything tiles it."""
    rules: list[Any] = []
    for rule in stock:
        name = type(rule).__name__
        if name == "AddRFactor":
            rules += [offering(tiled), offering(passed_over)]
        rules.append(finish_rule(rule) if name == "ParallelizeVectorizeUnroll" else rule)
    return rules
