"""Models of other frameworks as Relax, for `tune_relax`: ONNX files and torch modules.

The framework is imported only here and only when asked; it is an extra of this distribution. What a front end
cannot import is its own error, passed on.
"""

from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from tilefarm.errors import MissingExtraError


def from_onnx(
    path: str | Path, *, shapes: Mapping[str, Sequence[int]] | None = None
) -> tuple[Any, dict[str, Any]]:
    """(IRModule with `main`, its parameters by name) of an ONNX file.

    `shapes` are of its inputs, where the file leaves them open. Raises MissingExtraError.
    """
    onnx = _extra("onnx")
    from tvm.relax.frontend.onnx import from_onnx as import_onnx

    found = {name: list(shape) for name, shape in (shapes or {}).items()} or None
    return _detached(import_onnx(onnx.load(str(path)), shape_dict=found, keep_params_in_input=True))


def from_torch(module: Any, example_inputs: Sequence[Any]) -> tuple[Any, dict[str, Any]]:
    """(IRModule with `main`, its parameters by name) of a torch.nn.Module, by torch.export.

    `example_inputs` fix the shapes. Raises MissingExtraError.
    """
    torch = _extra("torch")
    from tvm.relax.frontend.torch import from_exported_program

    with torch.no_grad():
        program = torch.export.export(module.eval(), tuple(example_inputs))
    return _detached(from_exported_program(program, keep_params_as_input=True))


def _detached(mod: Any) -> tuple[Any, dict[str, Any]]:
    """The front ends leave the parameters' values on the function, in the order of its last arguments."""
    from tvm.relax.frontend import detach_params

    mod, params = detach_params(mod)
    values = params.get("main", [])
    names = [str(param.name) for param in mod["main"].params]
    return mod, dict(zip(names[len(names) - len(values) :], values, strict=True))


def _extra(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise MissingExtraError(name) from error
