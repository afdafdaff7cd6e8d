"""A submission's module past the first wall: its JSON text without weights; a model, or TensorIR alone."""

import json
from dataclasses import dataclass
from typing import Any

from checks.graph import GraphError, check_module_json
from checks.tensors import fold_weights
from services.api.errors import BadRequestError, InvalidError
from services.api.intake import Lowering
from services.api.schemas import SubmitJob

_RELAX_FUNCTION = "relax.expr.Function"


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmittedModule:
    text: str
    #: How to find a Relax model's tasks; None for a module of TensorIR, whose functions are its tasks.
    lowering: Lowering | None


def submitted_module(request: SubmitJob) -> SubmittedModule:
    """Raises BadRequestError, InvalidError."""
    graph = _graph(request.module)
    try:
        check_module_json(graph)
    except GraphError as error:
        where = "" if error.node is None else f" (node {error.node})"
        raise InvalidError.of(error.code, error.detail + where, function=error.function) from None
    if any(node["type"] == _RELAX_FUNCTION for node in graph["nodes"]):
        lowering = Lowering(
            pipeline=request.pipeline or "compile_relax",
            bound_params=request.bound_params,
            op_names=request.op_names,
        )
        return SubmittedModule(text=json.dumps(fold_weights(graph)), lowering=lowering)
    if request.pipeline is not None or request.bound_params or request.op_names:
        detail = "pipeline, bound_params and op_names are for a module with a Relax function"
        raise InvalidError.of("not_a_model", detail)
    return SubmittedModule(
        text=request.module if isinstance(request.module, str) else json.dumps(graph), lowering=None
    )


def _graph(module: Any) -> Any:
    if not isinstance(module, str):
        return module
    try:
        return json.loads(module)
    except (ValueError, RecursionError):
        raise BadRequestError("malformed_json", "module is a string that is not JSON") from None
