"""What tuning would be expected to bring to a task, from what the service says of similar workloads.

An estimate: of a miss against the untuned function, of a hit against its own record. It promises nothing.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tilefarm.errors import BadAnswerError

_BITS = {"bool": 8, "bfloat16": 16}
_BITS_PER_BYTE = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    #: How many times as fast as now; 1 where similar ones are no faster than this one is.
    factor: float
    #: Saved in a call of the model: the task's weight counts.
    secs: float
    #: Tuned workloads that the estimate is made of.
    similar: int


def work_of(mod: Any) -> dict[str, float] | None:
    """Operations and argument bytes of a canonical module; None where its shapes are not concrete."""
    import tvm

    kinds = [param.ty for param in mod["main"].params]
    if not all(_is_concrete(kind) for kind in kinds):
        return None
    return {
        "flops": float(tvm.s_tir.analysis.estimate_tir_flops(mod)),
        "size_bytes": float(sum(_buffer_bytes(kind) for kind in kinds)),
    }


def gain(expectation: Mapping[str, Any] | None, *, latency_secs: float | None, weight: int) -> Gain | None:
    """`latency_secs` is its record's; None where it is untuned. None where nothing similar was tuned."""
    if expectation is None:
        return None
    try:
        tuned_secs = float(expectation["tuned_secs"])
        now_secs = float(expectation["untuned_secs"]) if latency_secs is None else latency_secs
        similar = int(expectation["similar"])
    except (KeyError, TypeError, ValueError) as error:
        raise BadAnswerError("an expectation holds no seconds") from error
    if not (0 < tuned_secs < math.inf and 0 < now_secs < math.inf):
        raise BadAnswerError("an expectation's seconds are no times")
    factor = max(1.0, now_secs / tuned_secs)
    return Gain(factor=factor, secs=weight * (now_secs - now_secs / factor), similar=similar)


def _is_concrete(kind: Any) -> bool:
    import tvm

    return isinstance(kind, tvm.tirx.buffer.BufferType) and all(
        isinstance(extent, int | tvm.tirx.IntImm) for extent in kind.shape
    )


def _buffer_bytes(kind: Any) -> int:
    dtype = str(kind.dtype)
    digits = "".join(letter for letter in dtype.partition("_")[0] if letter.isdigit())
    bits = _BITS.get(dtype) or int(digits or 32)
    return math.prod(int(extent) for extent in kind.shape) * bits // _BITS_PER_BYTE
