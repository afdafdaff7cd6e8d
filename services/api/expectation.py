"""What tuning a workload would be expected to bring, from the most similar ones that were tuned. Pure.

Similar is what does as many operations on as many bytes: these two decide whether a kernel waits for memory
or for arithmetic, and with it how far from the device's peak an untuned one stays. Seconds are scaled by the
work. Nothing is known of the loops themselves, so that this is an estimate, and its spread is told.
"""

import heapq
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from checks.graph_allowed import DTYPE_BITS
from db.tuned import Tuned

#: Similar ones that an estimate is made of, at most.
_NEIGHBOURS = 5
#: Powers of two in work, and twice those in intensity, beyond which nothing is similar.
_FARTHEST = 6.0
_BITS_PER_BYTE = 8
_BYTES_PER_MOVE = 64.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Operations, and bytes of the arguments."""

    flops: float
    size_bytes: float

    @property
    def amount(self) -> float:
        """What seconds are proportional to, between workloads of one intensity."""
        return max(self.flops, self.size_bytes, 1.0)

    @property
    def intensity(self) -> float:
        """Operations a byte; what only moves bytes is like what does one in many bytes."""
        size_bytes = max(self.size_bytes, 1.0)
        return max(self.flops, size_bytes / _BYTES_PER_MOVE) / size_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A tuned workload, with what is compared of it: thousands are, for each that is asked about."""

    tuned: Tuned
    amount: float
    #: Powers of two.
    log_amount: float
    log_intensity: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    untuned_secs: float
    tuned_secs: float
    #: untuned / tuned: the median of the similar ones, the least and the most.
    speedup: float
    least_speedup: float
    most_speedup: float
    #: How many similar ones it is made of.
    similar: int


def known(tuned: Iterable[Tuned]) -> list[Known]:
    """Made once, for all that are asked about together."""
    works = [(Work(flops=each.flops, size_bytes=argument_bytes(each.args)), each) for each in tuned]
    return [
        Known(
            tuned=each,
            amount=work.amount,
            log_amount=math.log2(work.amount),
            log_intensity=math.log2(work.intensity),
        )
        for work, each in works
    ]


def expect(asked: Work, tuned: Sequence[Known]) -> Expectation | None:
    """None where nothing similar was tuned."""
    log_amount, log_intensity = math.log2(asked.amount), math.log2(asked.intensity)
    apart = [
        (abs(each.log_amount - log_amount) + 2.0 * abs(each.log_intensity - log_intensity), index)
        for index, each in enumerate(tuned)
    ]
    near = [tuned[index] for distance, index in heapq.nsmallest(_NEIGHBOURS, apart) if distance <= _FARTHEST]
    if not near:
        return None
    speedups = [each.tuned.untuned_secs / each.tuned.tuned_secs for each in near]
    return Expectation(
        untuned_secs=asked.amount * statistics.median(each.tuned.untuned_secs / each.amount for each in near),
        tuned_secs=asked.amount * statistics.median(each.tuned.tuned_secs / each.amount for each in near),
        speedup=statistics.median(speedups),
        least_speedup=min(speedups),
        most_speedup=max(speedups),
        similar=len(near),
    )


def argument_bytes(args: Sequence[Mapping[str, Any]]) -> int:
    return sum(math.prod(arg["shape"]) * DTYPE_BITS.get(arg["dtype"], 32) // _BITS_PER_BYTE for arg in args)
