"""A CostModel as TVM's evolutionary search asks for it: a PyCostModel over MeasureCandidates."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from tuner.cost_model.protocol import CostModel
from tuner.features import extract

#: TVM draws parents in proportion to their scores: none may be zero, or nothing could be drawn.
_LEAST_SCORE = 1e-4


def tvm_cost_model(model: CostModel) -> Any:
    """Predicts only: it is fitted outside, on rows. A model that learnt nothing scores all alike."""
    from tvm.ir.utils import derived_object
    from tvm.s_tir.meta_schedule.cost_model import PyCostModel

    class Adapter(PyCostModel):
        def load(self, path: str) -> None:
            raise NotImplementedError(path)

        def save(self, path: str) -> None:
            raise NotImplementedError(path)

        def update(self, context: Any, candidates: Any, results: Any) -> None:
            """Results come in by `CostModel.fit`."""

        def predict(self, context: Any, candidates: list[Any]) -> npt.NDArray[np.float64]:
            scores = model.predict(extract(context, candidates))
            return np.ones(len(candidates)) if scores is None else np.maximum(scores, _LEAST_SCORE)

    wrap: Callable[[type], type] = derived_object
    return wrap(Adapter)()
