"""Inside a child: the tensors that a kernel is called with, and whether it left in them what it should.

They hold the reference's inputs. It times nothing.
"""

import math
from dataclasses import dataclass, field
from typing import Any

from tuner.tvm_light import load_tvm
from workers.compare import difference
from workers.inputs import Array, numpy_dtype
from workers.reference_files import Reference


@dataclass(slots=True, kw_only=True)
class Arguments:
    """TVM's tensors, one for each parameter, in order; none before `fill`."""

    reference: Reference
    tensors: list[Any] = field(default_factory=list)
    _inputs: list[Array] = field(default_factory=list)
    _expected: dict[int, Array] = field(default_factory=dict)

    @property
    def size_bytes(self) -> int:
        """Of the tensors, without what they are compared with."""
        return sum(
            math.prod(parameter.shape) * numpy_dtype(parameter.dtype).itemsize
            for parameter in self.reference.parameters
        )

    def fill(self, device: Any) -> None:
        """Make the tensors on TVM's `device` and read what they shall hold, before and after a call."""
        tvm = load_tvm()
        self._inputs = self.reference.inputs()
        self._expected = self.reference.outputs()
        self.tensors = [
            tvm.runtime.empty(array.shape, parameter.dtype, device)
            for array, parameter in zip(self._inputs, self.reference.parameters, strict=True)
        ]
        self.refill()

    def refill(self) -> None:
        """Undo what calls have written."""
        for tensor, array in zip(self.tensors, self._inputs, strict=True):
            tensor.copyfrom(array)

    def difference(self) -> str | None:
        """After one call: where an output is not the reference's, and by how much; None where all are."""
        for index, expected in self._expected.items():
            parameter = self.reference.parameters[index]
            error = difference(
                parameter.name,
                self.tensors[index].numpy(),
                expected,
                dtype=parameter.dtype,
                reduction_length=self.reference.reduction_length,
            )
            if error is not None:
                return error
        return None
