"""The files of one reference: meta.json, the inputs and the expected outputs as raw little-endian bytes.

Written by the reference child, read by candidates of any number of chunks; never changed once in place.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from workers.inputs import Array, Parameter, numpy_dtype

_META = "meta.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """A reference on disk; arrays are read when asked for."""

    directory: Path
    parameters: tuple[Parameter, ...]
    output_indices: tuple[int, ...]
    reduction_length: int

    def inputs(self) -> list[Array]:
        """Initial contents of every parameter."""
        return [self._read("input", index) for index in range(len(self.parameters))]

    def outputs(self) -> dict[int, Array]:
        """Expected contents by index of the parameter."""
        return {index: self._read("output", index) for index in self.output_indices}

    def _read(self, kind: str, index: int) -> Array:
        parameter = self.parameters[index]
        array = np.fromfile(self.directory / f"{kind}_{index}.bin", dtype=np.uint8)
        return array.view(numpy_dtype(parameter.dtype)).reshape(parameter.shape)


def write_reference(
    directory: Path,
    *,
    parameters: Sequence[Parameter],
    inputs: Sequence[Array],
    outputs: dict[int, Array],
    reduction_length: int,
) -> None:
    directory.mkdir(parents=True)
    for index, array in enumerate(inputs):
        _write(directory / f"input_{index}.bin", array)
    for index, array in outputs.items():
        _write(directory / f"output_{index}.bin", array)
    meta: dict[str, Any] = {
        "parameters": [parameter.as_json() for parameter in parameters],
        "output_indices": sorted(outputs),
        "reduction_length": reduction_length,
    }
    (directory / _META).write_text(json.dumps(meta))


def read_reference(directory: Path) -> Reference:
    """Raises OSError where there is none."""
    meta = json.loads((directory / _META).read_text())
    return Reference(
        directory=directory,
        parameters=tuple(Parameter.from_json(obj) for obj in meta["parameters"]),
        output_indices=tuple(meta["output_indices"]),
        reduction_length=meta["reduction_length"],
    )


def _write(path: Path, array: Array) -> None:
    np.ascontiguousarray(array).reshape(-1).view(np.uint8).tofile(path)
