"""Tensors in a saved module: what they claim to be, and a module without its weights.

A tensor is saved as base64 of a header (shape, dtype) and its bytes. A model's weights decide nothing about
its kernels, so they are folded before a module travels: one zero stands for the tensor, and its type keeps
the shape. Client and service fold by the same code; tests keep both copies equal. Standard library only.
"""

import base64
import binascii
import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

TENSOR: Final = "ffi.Tensor"
_MAGIC: Final = 0xDD5E40F096B4A13F
#: Magic, reserved, device type and index, rank; type code, bits and lanes of an element.
_HEADER: Final = struct.Struct("<QQiiiBBH")
_MAX_RANK: Final = 8
_CPU: Final = 1
#: DLPack's codes of integers, unsigned ones and bool.
_INTEGRAL: Final = frozenset({0, 1, 6})
#: A tensor of so few integers may be a shape or axes, which decide what a model computes.
_MAX_KEPT: Final = 64
#: Base64 of so many characters holds the header of any rank.
_HEAD_CHARS: Final = 4 * math.ceil((_HEADER.size + 8 * (_MAX_RANK + 1)) / 3)


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorHead:
    shape: tuple[int, ...]
    #: Of one element.
    bits: int
    #: Its values may decide which kernels there are.
    is_kept: bool


def read_tensor(data: str) -> TensorHead:
    """What a saved tensor is. ValueError where it is not a whole one of the CPU."""
    head = _decoded(data[:_HEAD_CHARS])
    if len(head) < _HEADER.size:
        raise ValueError("a tensor's data is too short")
    magic, _, device, _, rank, code, bits, lanes = _HEADER.unpack_from(head)
    if magic != _MAGIC or device != _CPU or not 0 <= rank <= _MAX_RANK or lanes != 1 or bits % 8:
        raise ValueError("a tensor has a header that is not allowed")
    start = _HEADER.size + 8 * (rank + 1)
    if len(head) < start:
        raise ValueError("a tensor's data is too short")
    *shape, size_bytes = struct.unpack_from(f"<{rank + 1}q", head, _HEADER.size)
    count = math.prod(shape)
    if min(shape, default=1) < 1 or size_bytes != count * bits // 8:
        raise ValueError("a tensor's size does not fit its shape")
    if _length_bytes(data) != start + size_bytes:
        raise ValueError("a tensor has more or fewer bytes than it says")
    is_kept = rank == 0 or (code in _INTEGRAL and count <= _MAX_KEPT)
    return TensorHead(shape=tuple(shape), bits=bits, is_kept=is_kept)


def fold_weights(graph: Mapping[str, Any]) -> dict[str, Any]:
    """The saved module with one zero in place of each weight. ValueError as `read_tensor`."""
    nodes = [
        _folded(node) if isinstance(node, dict) and node.get("type") == TENSOR else node
        for node in graph["nodes"]
    ]
    return {**graph, "nodes": nodes}


def _folded(node: dict[str, Any]) -> dict[str, Any]:
    head = read_tensor(str(node.get("data")))
    if head.is_kept:
        return node
    fields = list(_HEADER.unpack_from(_decoded(node["data"][:_HEAD_CHARS])))
    fields[4] = 0
    element_bytes = head.bits // 8
    zero = _HEADER.pack(*fields) + struct.pack("<q", element_bytes) + bytes(element_bytes)
    return {"type": TENSOR, "data": base64.b64encode(zero).decode()}


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError("a tensor's data is not base64") from error


def _length_bytes(text: str) -> int:
    """Of what the base64 holds, without decoding it."""
    end = text[-4:]
    return len(text) // 4 * 3 - (len(end) - len(end.rstrip("=")))
