"""Zeros in place of a model's weights: which workloads a model has does not depend on them.

Which of a model's values are constants decides what is folded, and so what a compile asks for; what they hold
does not. So weights never travel: a submitted constant is one element, in the type of the full shape, and
becomes zeros of that shape here.
"""

from collections.abc import Collection
from typing import Any

from tuner.errors import WorkloadError
from tuner.tvm_light import load_tvm

_ENTRY = "main"


def bind_zeros(mod: Any, names: Collection[str]) -> Any:
    """The module with these parameters of `main` as constants: zeros of their shape and dtype.

    Raises WorkloadError unknown_parameter.
    """
    tvm = load_tvm()
    if not names:
        return mod
    function = next((func for var, func in mod.functions_items() if str(var.name_hint) == _ENTRY), None)
    params = {} if function is None else {str(param.name): param.ty for param in function.params}
    for name in names:
        if name not in params:
            detail = f"{_ENTRY} has no parameter {name}"
            raise WorkloadError(detail, code="unknown_parameter", function=_ENTRY)
    return tvm.relax.transform.BindParams(_ENTRY, {name: _zeros(params[name]) for name in names})(mod)


def unfold_zeros(mod: Any) -> Any:
    """The module with each constant whose tensor is smaller than its type as zeros of the type's shape."""
    load_tvm()
    from tvm.relax import Function
    from tvm.relax.expr_functor import PyExprMutator, mutator

    @mutator
    class Unfold(PyExprMutator):
        def visit_generic_const_(self, op: Any) -> Any:
            if tuple(op.value.shape) == _extents(op.ty):
                return op
            return type(op)(_zeros(op.ty), op.ty)

    unfold = Unfold(mod)
    for variable, func in mod.functions_items():
        if isinstance(func, Function):
            unfold.builder_.update_func(variable, unfold.visit_expr(func))
    return unfold.builder_.get()


def _zeros(tensor_type: Any) -> Any:
    import ml_dtypes  # noqa: F401 - teaches numpy bfloat16 and float8
    import numpy as np

    tvm = load_tvm()
    return tvm.runtime.tensor(np.zeros(_extents(tensor_type), dtype=str(tensor_type.dtype)))


def _extents(tensor_type: Any) -> tuple[int, ...]:
    return tuple(int(extent) for extent in tensor_type.shape)
