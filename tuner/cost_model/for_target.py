"""The cost model of a target: trees, which on a CPU start from a roofline."""

from typing import Any

from tuner.cost_model.prior import Prior
from tuner.cost_model.roofline import Cpu, RooflineModel
from tuner.cost_model.xgb import XGBoostModel
from tuner.space.vectors import vector_unit


def cost_model(target: Any) -> XGBoostModel:
    """A fresh one for a tvm.target.Target."""
    if str(target.kind.name) != "llvm":
        return XGBoostModel()
    return XGBoostModel(prior=Prior(RooflineModel(cpu_of(target))))


def cpu_of(target: Any) -> Cpu:
    """As the roofline sees it, of an llvm target."""
    unit = vector_unit(target, "float32")
    cores = max(1, int(target.attrs.get("num-cores", 1)))
    return Cpu(cores=cores, lanes=unit.lanes, registers=unit.registers)
