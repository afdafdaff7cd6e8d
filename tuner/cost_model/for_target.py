"""The cost model of a target: trees, which on a CPU start from a roofline."""

from typing import Any

from tuner.cost_model.prior import Prior
from tuner.cost_model.roofline import Cpu, Roofline
from tuner.cost_model.xgb import XGBoostModel
from tuner.space.vectors import vector_unit


def cost_model(target: Any) -> XGBoostModel:
    """A fresh one for a tvm.target.Target."""
    if str(target.kind.name) != "llvm":
        return XGBoostModel()
    unit = vector_unit(target, "float32")
    cores = max(1, int(target.attrs.get("num-cores", 1)))
    return XGBoostModel(prior=Prior(Roofline(Cpu(cores=cores, lanes=unit.lanes))))
