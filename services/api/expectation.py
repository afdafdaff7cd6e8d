"""What tuning a workload would be expected to bring, from the most similar ones that were tuned. Pure.

Similar is what does as many operations on as many bytes: these two decide whether a kernel waits for memory
or for arithmetic, and with it how far from the device's peak an untuned one stays. Seconds are scaled by the
work. Nothing is known of the loops themselves, so that this is an estimate, and its spread is told.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
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
class Expectation:
    untuned_secs: float
    tuned_secs: float
    #: untuned / tuned: the median of the similar ones, the least and the most.
    speedup: float
    least_speedup: float
    most_speedup: float
    #: How many similar ones it is made of.
    similar: int


def expect(asked: Work, tuned: Sequence[Tuned]) -> Expectation | None:
    """None where nothing similar was tuned."""
    works = [(Work(flops=each.flops, size_bytes=argument_bytes(each.args)), each) for each in tuned]
    apart = sorted((_distance(asked, work), index) for index, (work, _) in enumerate(works))
    near = [works[index] for distance, index in apart[:_NEIGHBOURS] if distance <= _FARTHEST]
    if not near:
        return None
    speedups = [each.untuned_secs / each.tuned_secs for _, each in near]
    return Expectation(
        untuned_secs=asked.amount * statistics.median(each.untuned_secs / work.amount for work, each in near),
        tuned_secs=asked.amount * statistics.median(each.tuned_secs / work.amount for work, each in near),
        speedup=statistics.median(speedups),
        least_speedup=min(speedups),
        most_speedup=max(speedups),
        similar=len(near),
    )


def argument_bytes(args: Sequence[Mapping[str, Any]]) -> int:
    return sum(math.prod(arg["shape"]) * DTYPE_BITS.get(arg["dtype"], 32) // _BITS_PER_BYTE for arg in args)


def _distance(one: Work, other: Work) -> float:
    in_work = abs(math.log2(one.amount / other.amount))
    in_intensity = abs(math.log2(one.intensity / other.intensity))
    return in_work + 2.0 * in_intensity
