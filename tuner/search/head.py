"""What a sketch does before its first decision is the same for all its programs, and done once.

Packing, layouts and copies are made there: of a convolution's replay a half to three quarters. A program
starts from a copy of that schedule, which costs a tenth of a millisecond. TVM resumes no trace, so the
blocks and loops that the rest names are looked up anew: the copy's own trace holds these instructions too,
and is not the program's.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

from tuner.search.genome import Genome, Sketch
from tuner.trace import TVM_ERRORS, apply_to

#: A name that no trace's JSON gives: of a loop that nobody asks for.
_UNUSED = "_"
#: Where this is in a trace, a postproc reads the trace, and goes on with the variables that it finds there.
_FETCH = "meta_schedule.cooperative_fetch"


@dataclass(frozen=True, slots=True)
class Head:
    """A schedule after the sketch's first instructions, and the rest as it goes on from there."""

    schedule: Any
    #: Instructions that name what is there, then the sketch's others.
    rest: list[Any]
    #: What an instruction's place in the sketch is less in `rest`.
    shift: int

    @classmethod
    def of(cls, sketch: Sketch, untouched: Any) -> Self:
        """`untouched` is a schedule of the workload. Raises TraceError, and what TVM raises."""
        if _FETCH in sketch.text:
            raise ValueError("a sketch whose postprocs go on with its own variables")
        cut = sketch.sites[0].index if sketch.sites else 0
        head, tail = sketch.instructions[:cut], sketch.instructions[cut:]
        schedule = apply_to([head, []], untouched.copy())
        produced = [name for *_, outputs in head for name in outputs]
        variables = [variable for each in schedule.trace.insts for variable in each.outputs]
        there = dict(zip(produced, variables, strict=True))
        wanted = {name: there[name] for name in _names(inputs for _, inputs, *_ in tail) if name in there}
        looked_up = _looked_up(schedule.copy(), wanted, there, function=_function(head))
        return cls(schedule, [*looked_up, *tail], cut - len(looked_up))

    def replayed(self, genome: Genome) -> Any:
        """Its schedule, before postprocs. Raises TraceError."""
        pairs = zip(genome.sketch.sites, genome.decisions, strict=True)
        decisions = [[s.index - self.shift, list(d) if isinstance(d, tuple) else d] for s, d in pairs]
        return apply_to([self.rest, decisions], self.schedule.copy())


def _function(head: Iterable[Any]) -> str:
    """Where the blocks are. Raises ValueError where they are in several."""
    (name,) = {attributes[1] for kind, _, attributes, _ in head if kind == "GetSBlock"}
    return str(name)


def _names(inputs: Iterable[Any]) -> Iterator[str]:
    for each in inputs:
        if isinstance(each, str):
            yield each
        elif isinstance(each, list):
            yield from _names(each)


def _looked_up(
    scratch: Any, wanted: Mapping[str, Any], there: Mapping[str, Any], *, function: str
) -> list[Any]:
    """Instructions that give the `wanted` blocks and loops those names again. Raises what TVM raises."""
    blocks = {name: variable for name, variable in there.items() if name.startswith("b")}
    loops = {name: scratch.get_sref(variable) for name, variable in wanted.items() if name.startswith("l")}
    if len(loops) + sum(name in blocks for name in wanted) < len(wanted):
        raise ValueError("a sketch whose numbers are known before its first decision")
    found = []
    for name, variable in blocks.items():
        block = _block_name(scratch, variable)
        if block is None or (name not in wanted and not loops):
            continue
        around = [scratch.get_sref(loop) for loop in scratch.get_loops(variable)]
        named = [next((n for n, loop in loops.items() if loop.same_as(each)), _UNUSED) for each in around]
        if name not in wanted and set(named) <= {_UNUSED}:
            continue
        scratch.get_sblock(block, func_name=function)  # where the name is of one block alone
        found.append(["GetSBlock", [], [block, function], [name]])
        if set(named) - {_UNUSED}:
            found.append(["GetLoops", [name], [], named])
        loops = {n: loop for n, loop in loops.items() if n not in named}
    if loops:
        raise ValueError("a loop around no block that is known")
    return found


def _block_name(scratch: Any, variable: Any) -> str | None:
    """None where the block is no longer there: it was inlined."""
    try:
        return str(scratch.get(variable).name_hint)
    except TVM_ERRORS:
        return None
