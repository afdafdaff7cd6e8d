"""The schedule rules of each named space. A rule of one's own is one more line in OURS."""

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any, Final

from tuner.space.column_rule import passed_down
from tuner.space.contraction_rule import tiled
from tuner.space.finish_rule import finish_rule
from tuner.space.injective_rule import one_by_one
from tuner.space.inline_rule import inline_rule
from tuner.space.offering import Forms, Offered, offering
from tuner.space.postprocs import postprocs
from tuner.space.reduction_rule import reduced
from tuner.space.row_rule import passed_through
from tuner.space.tiling_rule import tiling_rule
from tuner.space.window_rule import passed_over

#: Our rules by name, in the order in which they see a block.
OURS: Final[Mapping[str, Forms]] = {
    "contraction": tiled,
    "window": passed_over,
    "row": passed_through,
    "column": passed_down,
    "reduction": reduced,
    "injective": one_by_one,
}


def with_ours(target: Any, *, only: Collection[str] | None = None) -> Any:
    """A fresh SpaceGenerator: TVM's rules for this target with ours among them; on a GPU, TVM's alone.

    `only`: names of the rules of ours that are asked; all of them by default.
    """
    from tvm import IRModule
    from tvm.s_tir.meta_schedule import TuneContext
    from tvm.s_tir.meta_schedule.space_generator import PostOrderApply

    stock = stocks_own(target)
    if str(target.kind.name) != "llvm":
        return stock
    # TVM chooses by the target's features which rules are the default: tensor intrinsics come with them.
    chosen = TuneContext(mod=IRModule({}), target=target, space_generator=stock).space_generator
    return PostOrderApply(
        sch_rules=_with_ours(list(chosen.sch_rules), OURS if only is None else only),
        postprocs=postprocs(list(chosen.postprocs)),
        mutator_probs=dict(chosen.mutator_probs),
    )


def stocks_own(target: Any) -> Any:
    """A fresh SpaceGenerator of TVM's rules for this target.

    For RISC-V with vectors TVM 0.27 takes rules that it cannot apply outside of its own tuner; those of every
    CPU are taken there.
    """
    from tvm.s_tir.meta_schedule.mutator import Mutator
    from tvm.s_tir.meta_schedule.postproc import Postproc
    from tvm.s_tir.meta_schedule.schedule_rule import ScheduleRule
    from tvm.s_tir.meta_schedule.space_generator import PostOrderApply

    if not str(target.attrs.get("mtriple", "")).startswith("riscv"):
        return PostOrderApply()
    kind = "llvm"
    return PostOrderApply(
        sch_rules=ScheduleRule.create(kind),
        postprocs=Postproc.create(kind),
        mutator_probs=Mutator.create(kind),
    )


def _with_ours(stock: list[Any], names: Collection[str]) -> list[Any]:
    """Ours see a block after inlining and before anything tiles it."""
    rules: list[Any] = []
    offered = Offered()
    in_place_of: Mapping[str, Callable[[Any], Any]] = {
        "AutoInline": partial(inline_rule, offered=offered),
        "MultiLevelTiling": partial(tiling_rule, offered=offered),
        "ParallelizeVectorizeUnroll": finish_rule,
    }
    for rule in stock:
        name = type(rule).__name__
        if name == "AddRFactor":
            rules += [offering(forms, offered) for rule_name, forms in OURS.items() if rule_name in names]
        rules.append(in_place_of[name](rule) if name in in_place_of else rule)
    return rules
