"""The files of one reference: meta.json, the inputs and the expected outputs as raw little-endian bytes.

Written by the reference child, read by candidates of any number of chunks; never changed once in place.
"""

import errno
import fcntl
import json
import math
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from sandbox.directory import read_file, remove
from workers.inputs import Array, InputRule, Parameter, make_inputs, numpy_dtype

_META = "meta.json"
_LENGTH_BYTES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """A reference on disk; arrays are read when asked for."""

    directory: Path
    parameters: tuple[Parameter, ...]
    output_indices: tuple[int, ...]
    reduction_length: int
    #: The inputs are positive, because others led to NaN.
    positive_floats: bool = False

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
    positive_floats: bool = False,
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
        "positive_floats": positive_floats,
    }
    (directory / _META).write_text(json.dumps(meta))


def read_reference(directory: Path) -> Reference:
    """Raises OSError where there is none, or not the whole of it.

    A host that lost its power may have kept the names of files without their contents.
    """
    try:
        meta = json.loads(read_file(directory / _META))
        reference = Reference(
            directory=directory,
            parameters=tuple(Parameter.from_json(obj) for obj in meta["parameters"]),
            output_indices=tuple(meta["output_indices"]),
            reduction_length=meta["reduction_length"],
            positive_floats=meta["positive_floats"],
        )
        for index, parameter in enumerate(reference.parameters):
            _check_size(directory / f"input_{index}.bin", parameter)
        for index in reference.output_indices:
            _check_size(directory / f"output_{index}.bin", reference.parameters[index])
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise OSError(errno.EIO, f"its {_META} does not read: {error!r}", str(directory)) from error
    return reference


@contextmanager
def in_use(directory: Path) -> Iterator[None]:
    """No process of this host evicts it meanwhile; raises OSError where it is not there as a whole."""
    directory_fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(directory_fd, fcntl.LOCK_SH)
        # It may have been evicted while it was waited for, and another one made.
        if not os.path.samestat(os.fstat(directory_fd), directory.stat()):
            raise FileNotFoundError(errno.ENOENT, "it was evicted", str(directory))
        read_reference(directory)
        yield
    finally:
        os.close(directory_fd)


def evict(directory: Path) -> bool:
    """Remove it, unless somebody uses it; whether it is gone."""
    try:
        directory_fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    try:
        with suppress(BlockingIOError):
            fcntl.flock(directory_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            remove(directory)
            return True
        return False
    finally:
        os.close(directory_fd)


def _check_size(path: Path, parameter: Parameter) -> None:
    """Raises OSError where the file does not hold what the parameter needs."""
    size = path.lstat().st_size
    if not path.is_file() or size != math.prod(parameter.shape) * numpy_dtype(parameter.dtype).itemsize:
        raise OSError(errno.EIO, f"it holds {size} bytes", str(path))


def pack_reference(directory: Path) -> bytes:
    """The expected outputs in one piece, for another host, which makes the inputs itself."""
    meta = (directory / _META).read_bytes()
    outputs = [(directory / f"output_{i}.bin").read_bytes() for i in read_reference(directory).output_indices]
    return b"".join([len(meta).to_bytes(_LENGTH_BYTES, "little"), meta, *outputs])


def unpack_reference(packed: bytes, directory: Path, rule: InputRule) -> None:
    """Write the files of what `pack_reference` packed; raises ValueError or KeyError where it is not."""
    end = _LENGTH_BYTES + int.from_bytes(packed[:_LENGTH_BYTES], "little")
    meta = json.loads(packed[_LENGTH_BYTES:end])
    parameters = [Parameter.from_json(obj) for obj in meta["parameters"]]
    outputs: dict[int, Array] = {}
    for index in meta["output_indices"]:
        parameter = parameters[index]
        dtype = numpy_dtype(parameter.dtype)
        count = math.prod(parameter.shape)
        outputs[index] = np.frombuffer(packed, dtype=dtype, count=count, offset=end).reshape(parameter.shape)
        end += count * dtype.itemsize
    positive, length = bool(meta["positive_floats"]), int(meta["reduction_length"])
    write_reference(
        directory,
        parameters=parameters,
        inputs=make_inputs(parameters, replace(rule, positive_floats=positive), reduction_length=length),
        outputs=outputs,
        reduction_length=length,
        positive_floats=positive,
    )


def _write(path: Path, array: Array) -> None:
    np.ascontiguousarray(array).reshape(-1).view(np.uint8).tofile(path)
