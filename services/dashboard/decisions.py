"""What a trace has sampled, by name: the axes of the decisions explorer. Pure; traces are read as JSON.

A trace names its loops and blocks by variables (`l3`, `b0`); here a decision is named by what it is for, so
that the traces of one search, whatever their sketch, stand on the same axes.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

#: Instructions that give blocks or loops, and how their outputs are called after their first input.
_DERIVED = {
    "GetChildBlocks": "child of {}",
    "GetProducers": "producer of {}",
    "GetConsumers": "consumer of {}",
    "CacheRead": "{} read cache",
    "CacheWrite": "{} write cache",
    "DecomposeReduction": "{} init",
    "RFactor": "{} rfactor",
    "Blockize": "{} blockized",
    "ReIndex": "{} reindexed",
    "Fuse": "fused {}",
    "Merge": "merged {}",
    "AddUnitLoop": "loop around {}",
}
_LOCATIONS = {-2: "root", -1: "inlined"}
_MAX_NAME = 60

Value = int | float | str


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """A decision on which the trials differ."""

    name: str
    #: Which part of it: a factor of a tile; empty where the decision is one value.
    part: str
    #: Share of the variance of log latency that its values explain, less what chance would; 0 to 1.
    explains: float
    #: By trial; None where the trial's sketch has no such decision.
    values: list[Value | None]


def decisions_of(trace: Any) -> dict[tuple[str, str], Value]:
    """(name, part) → value of every sampled decision of a trace's JSON; empty where it does not read."""
    try:
        instructions, decided = trace
        chosen = {int(index): decision for index, decision in decided}
        return _Reader(instructions).read(chosen)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError):
        return {}


def axes(traces: Sequence[Any], latencies_secs: Sequence[float], *, most: int) -> list[Axis]:
    """The decisions that tell most about the latency, the most telling first; at most `most` of them."""
    found = [decisions_of(trace) for trace in traces]
    names = dict.fromkeys(name for each in found for name in each)
    logs = [math.log(secs) for secs in latencies_secs]
    ranked = []
    for name, part in names:
        values = [each.get((name, part)) for each in found]
        if len(set(values)) > 1:
            explains = explained(values, logs)
            ranked.append(Axis(name=name, part=part, explains=round(explains, 4), values=values))
    return sorted(ranked, key=lambda axis: -axis.explains)[:most]


def explained(values: Sequence[Value | None], numbers: Sequence[float]) -> float:
    """Share of the variance of `numbers` between groups of equal value, adjusted for their number."""
    groups: dict[Value | None, list[float]] = defaultdict(list)
    for value, number in zip(values, numbers, strict=True):
        groups[value].append(number)
    count, mean = len(numbers), sum(numbers) / len(numbers)
    total = sum((number - mean) ** 2 for number in numbers)
    if total <= 0 or count <= len(groups):
        return 0.0
    within = sum(
        sum((number - sum(group) / len(group)) ** 2 for number in group) for group in groups.values()
    )
    return max(0.0, 1 - (within / (count - len(groups))) / (total / (count - 1)))


class _Reader:
    """Walks a trace's instructions: [kind, inputs, attributes, outputs]."""

    def __init__(self, instructions: Sequence[Any]) -> None:
        self._instructions = instructions
        self._called: dict[str, str] = {}
        self._seen: Counter[str] = Counter()

    def read(self, chosen: Mapping[int, Any]) -> dict[tuple[str, str], Value]:
        found: dict[tuple[str, str], Value] = {}
        for index, (kind, inputs, attributes, outputs) in enumerate(self._instructions):
            if kind == "SamplePerfectTile":
                name = self._unique(f"{self._call(inputs)} tile")
                factors = chosen[index]
                found |= {
                    (name, f"{place} of {len(factors)}"): int(factor)
                    for place, factor in enumerate(factors, 1)
                    if place > 1
                }
            elif kind == "SampleCategorical":
                value = attributes[0][int(chosen[index])]
                found[self._unique(self._purpose(outputs[0])), ""] = value
            elif kind == "SampleComputeLocation":
                place = int(chosen[index])
                name = self._unique(f"{self._call(inputs)} computed at")
                found[name, ""] = _LOCATIONS.get(place, f"loop {place}")
            self._note(kind, inputs, attributes, outputs)
        return found

    def _note(
        self, kind: str, inputs: Sequence[Any], attributes: Sequence[Any], outputs: Sequence[Any]
    ) -> None:
        """How what the instruction gives is called."""
        for place, output in enumerate(outputs):
            if kind == "GetSBlock":
                called = str(attributes[0])
            elif kind == "GetLoops":
                called = f"{self._call(inputs)} loop {place}"
            elif kind == "Split":
                called = self._call(inputs)
            else:
                called = _DERIVED.get(kind, "{}").format(self._call(inputs))
            self._called[str(output)] = called[:_MAX_NAME]

    def _call(self, inputs: Sequence[Any]) -> str:
        return self._called.get(str(inputs[0]), str(inputs[0])) if inputs else "it"

    def _purpose(self, variable: Any) -> str:
        """What a sampled value is for: the annotation that takes it."""
        for kind, inputs, attributes, _ in self._instructions:
            if kind == "Annotate" and variable in inputs[1:]:
                return str(attributes[0]).removeprefix("meta_schedule.").replace("_", " ")[:_MAX_NAME]
        return "choice"

    def _unique(self, name: str) -> str:
        self._seen[name] += 1
        return name if self._seen[name] == 1 else f"{name} ({self._seen[name]})"
