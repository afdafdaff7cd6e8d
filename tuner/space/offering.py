"""How a rule of ours enters the design space: forms of a block beside the schedule that it was asked about.

Each form is one more design space; the untouched schedule goes on to stock's rules, with all blocks that have
forms. The forms of several blocks are combined, which multiplies them: only the first is offered in all its
forms, and the others take a few beside it, of many contractions in one function the most hopeful one alone.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tuner.space.calls import may_be_vectors
from tuner.space.contraction import Contraction
from tuner.space.marks import is_marked, is_ours
from tuner.trace import TVM_ERRORS

#: Contractions whose forms are combined: four of them would be ten thousand design spaces.
_COMBINED = 3
#: Forms that a block has beside a form of another one: attention, 5 heads of 161 x 59, 80 wide, took 125 to
#: 129 µs after 24 trials in 684 design spaces of ours, 86 to 90 in 342 (Zen 5).
_BESIDE = 4
#: Draws of a form before it is taken for one that there is not.
_ATTEMPTS = 4

#: (schedule, block, target) -> schedules; none where the rule has nothing to say of the block.
Forms = Callable[[Any, Any, Any], list[Any]]


class Offered:
    """Names of blocks for which rules of one space had forms, whatever was inlined into them.

    None of them is left to stock's tiling beside a form of ours: what vectorises and begins it would rewrite
    ours as well. Nor where something was kept for forms of ours, beside which stock has its own space. Of 846
    design spaces of an attention 198 and 81 were such.
    """

    def __init__(self) -> None:
        #: With the rule that had them.
        self._forms: dict[str, Forms] = {}
        self._kept: set[str] = set()

    def begin(self) -> None:
        self._forms.clear()
        self._kept.clear()

    def keep(self, name: str) -> None:
        """A block that stock's rules would inline stands in one more schedule."""
        self._kept.add(name)

    def is_kept_for(self, schedule: Any) -> bool:
        """Something that stock's rules would have inlined stands in the schedule."""
        return bool(self._kept.intersection(names_of(schedule)))

    def add(self, name: str, forms: Forms) -> None:
        self._forms.setdefault(name, forms)

    def __contains__(self, name: str) -> bool:
        return name in self._forms

    def is_declined(self, schedule: Any, name: str, forms: Forms) -> bool:
        """Another of them is left to stock's rules, in a schedule without a form of ours.

        A rule sees the last block first: those before this one it has yet to see.
        """
        names = names_of(schedule)
        place = names.index(name) if name in names else len(names)  # one within another block
        return any(
            other in self._forms and (at > place or self._forms[other] is not forms)
            for at, other in enumerate(names)
            if at != place
        )


def names_of(schedule: Any) -> list[str]:
    """Of its blocks, in their order."""
    blocks = schedule.get_child_blocks(schedule.get_sblock("root"))
    return [str(schedule.get(block).name_hint) for block in blocks]


def offering(forms: Forms, offered: Offered) -> Any:
    """A fresh TVM ScheduleRule that offers `forms`; rules of one space share what they `offered`."""
    from tvm.ir.utils import derived_object
    from tvm.s_tir.meta_schedule.schedule_rule import PyScheduleRule

    @derived_object
    class Offering(PyScheduleRule):
        def __init__(self) -> None:
            super().__init__()
            self.target: Any = None
            self.is_crowded = False
            #: The block that is offered in all its forms, where it is crowded.
            self.first: str | None = None

        def _initialize_with_tune_context(self, context: Any) -> None:
            self.target = context.target
            self.is_crowded = is_crowded(context.mod)
            offered.begin()

        def apply(self, sch: Any, block: Any) -> list[Any]:
            if not may_be_vectors(sch.get(block)):
                return [sch]
            found = forms(_in_order(sch, block), block, self.target)
            if not found:
                return [sch]
            name = str(sch.get(block).name_hint)
            offered.add(name, forms)
            if is_ours(sch):  # nothing of stock's fits beside ours
                return _beside(found, few=self.is_crowded)
            if offered.is_declined(sch, name, forms):
                return [sch]
            self.first = self.first or name
            if self.is_crowded and name != self.first:
                return [sch]
            return found if offered.is_kept_for(sch) else [sch, *found]

        def clone(self) -> Any:
            return offering(forms, offered)

    return Offering()


def _beside(found: list[Any], *, few: bool) -> list[Any]:
    """The most hopeful ones, and the last, which is of another kind than tiles where there are such."""
    if few:
        return found[:1]
    return found if len(found) <= _BESIDE else [*found[: _BESIDE - 1], found[-1]]


def written(schedule: Any, name: str, writes: Iterable[Callable[[Any, Any], None]]) -> list[Any]:
    """A copy of the schedule for each of `writes(copy, block)` that TVM can carry out on the block `name`.

    What it draws may be all that stands in its way (a core's part of the rows that ends within a line leaves
    padding a loop of unknown extent), and no seed should decide which forms there are.
    """
    found = []
    for write in writes:
        for _ in range(_ATTEMPTS):
            candidate = schedule.copy()
            try:
                write(candidate, candidate.get_sblock(name))
            except TVM_ERRORS:
                if len(candidate.trace.decisions) > len(schedule.trace.decisions):
                    continue
            else:
                found.append(candidate)
            break
    return found


def is_crowded(mod: Any) -> bool:
    """It has more contractions than those whose forms are combined."""
    bodies = [func.body for _, func in mod.functions_items()]
    return sum(Contraction.of(block) is not None for body in bodies for block in _blocks(body)) > _COMBINED


def _blocks(statement: Any) -> Iterator[Any]:
    """Those of a statement, and within them."""
    if type(statement).__name__ == "SBlock":
        yield statement
    parts = [getattr(statement, name, None) for name in ("body", "block")]
    for part in (*parts, *getattr(statement, "seq", ())):
        if part is not None:
            yield from _blocks(part)


def _in_order(schedule: Any, block: Any) -> Any:
    """The schedule, or a copy whose loops stand in the order of the iterators that they are bound to.

    A product may be written with its loops as (rows, depth, columns); only in order has a block a layout that
    can be transformed.
    """
    loops = list(schedule.get_loops(block))
    realize = schedule.get(loops[-1]).body if loops else None
    variables = [schedule.get(loop).loop_var for loop in loops]
    bound = [
        place
        for value in getattr(realize, "iter_values", ())
        for place, variable in enumerate(variables)
        if variable.same_as(value)
    ]
    if bound == sorted(bound) or sorted(bound) != list(range(len(loops))):
        return schedule
    ordered = schedule.copy()
    try:
        ordered.reorder(*(loops[place] for place in bound))
    except TVM_ERRORS:
        return schedule
    return ordered


def is_untouched(schedule: Any, block: Any) -> bool:
    """Every loop around it is bound to an iterator of its own."""
    node = schedule.get(block)
    return (
        node.init is not None
        and not is_marked(node)
        and len(schedule.get_loops(block)) == len(node.iter_vars)
    )
