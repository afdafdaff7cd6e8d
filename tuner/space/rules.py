"""The schedule rules of each named space. A rule of one's own is one more `offering` in `_with_ours`."""

from typing import Any

from tuner.space.contraction_rule import tiled
from tuner.space.finish_rule import finish_rule
from tuner.space.offering import offering
from tuner.space.postprocs import postprocs
from tuner.space.row_rule import passed_through
from tuner.space.window_rule import passed_over


def with_ours(target: Any) -> Any:
    """A fresh SpaceGenerator: TVM's rules for this target with ours among them; on a GPU, TVM's alone."""
    from tvm import IRModule
    from tvm.s_tir.meta_schedule import TuneContext
    from tvm.s_tir.meta_schedule.space_generator import PostOrderApply

    stock = PostOrderApply()
    if str(target.kind.name) != "llvm":
        return stock
    # TVM chooses by the target's features which rules are the default: tensor intrinsics come with them.
    chosen = TuneContext(mod=IRModule({}), target=target, space_generator=stock).space_generator
    return PostOrderApply(
        sch_rules=_with_ours(list(chosen.sch_rules)), postprocs=postprocs(list(chosen.postprocs))
    )


def _with_ours(stock: list[Any]) -> list[Any]:
    """Ours see a block after inlining and before anything tiles it."""
    rules: list[Any] = []
    for rule in stock:
        name = type(rule).__name__
        if name == "AddRFactor":
            rules += [offering(tiled), offering(passed_over), offering(passed_through)]
        rules.append(finish_rule(rule) if name == "ParallelizeVectorizeUnroll" else rule)
    return rules
