"""Random programs, each design space in its turn: none is left out because a coin never fell on it.

TVM draws the space of each program by a coin (SampleInitPopulation); of a dozen spaces several are then seen
late, or never at a small budget. A space that holds nothing new is passed over.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from tuner.search.choices import Choices
from tuner.search.genome import Genome, Sketch, genome_of, sketch_of
from tuner.search.picks import Drawn
from tuner.search.programs import Programs, Refused
from tuner.trace import canonical_text

#: Refusals by postprocs before a draw is given up.
_TRIES = 4
#: Draws in a row that bring a known program before a space is written out, or left for this draw.
_STALE = 32
_MAX_STATE = 1 << 30


@dataclass(frozen=True, slots=True)
class Space:
    """A design space: its sketch, and how to draw from it without a schedule, where that is possible."""

    sketch: Sketch
    choices: Choices | None


def spaces_of(design_spaces: Sequence[Any]) -> tuple[Space, ...]:
    """Of TVM schedules, without the instructions that nothing needs, as TVM's strategies take them."""
    return tuple(_space(schedule) for schedule in design_spaces)


def _space(schedule: Any) -> Space:
    text = canonical_text(schedule.trace.simplified(remove_postproc=True))
    genome = genome_of(text)
    return Space(sketch_of(text), None if genome is None else Choices.of(genome))


class Drawing:
    """Draws of one round, no program twice."""

    def __init__(self, spaces: Sequence[Space], programs: Programs, random: Random) -> None:
        self._spaces = spaces
        self._programs = programs
        self._random = random
        self._tried: set[Genome] = set()
        self._hashes: set[str] = set()
        self._empty: set[Sketch] = set()
        #: Spaces that brought known programs alone, in the draw at hand.
        self._stale: set[Sketch] = set()
        #: Draws in a row that brought a known program.
        self.useless = 0

    @property
    def is_dry(self) -> bool:
        """Every space was written out, and holds nothing new."""
        return len(self._empty) == len({space.sketch for space in self._spaces})

    @property
    def refused_by(self) -> frozenset[str]:
        """Names of the postprocs that have rejected a program."""
        return self._programs.refused_by

    def draw(self, count: int, weights: Mapping[Sketch, float] | None = None) -> list[Drawn]:
        """At most `count` new programs, from each space by its weight (None: alike)."""
        found: list[Drawn] = []
        self._stale.clear()
        while len(found) < count:
            live = [space for space in self._spaces if self._is_live(space)]
            shares = [1.0 if weights is None else weights[space.sketch] for space in live]
            places = _shared_out(shares, count - len(found), self._random)
            drawn = [each for place in places if (each := self._one(live[place])) is not None]
            found += drawn
            if not drawn:
                break
        return found

    def _is_live(self, space: Space) -> bool:
        return space.sketch not in self._empty and space.sketch not in self._stale

    def _one(self, space: Space) -> Drawn | None:
        """A new one; a space that has none is left for the rest of the round, or of the draw."""
        if not self._is_live(space):
            return None
        refused, stale = 0, 0
        while refused < _TRIES and stale < _STALE:
            drawn = self._attempt(space)
            if isinstance(drawn, Drawn) and self._is_new(drawn):
                return drawn
            refused += isinstance(drawn, Refused)
            stale += not isinstance(drawn, Refused)
        self.useless += stale
        return self._written_out(space) if stale >= _STALE else None

    def _written_out(self, space: Space) -> Drawn | None:
        """The first that is new of all that there are, where they are few; none are left otherwise."""
        if space.choices is None or not space.choices.few:
            self._stale.add(space.sketch)
            return None
        genomes = list(space.choices.all())
        self._random.shuffle(genomes)
        for genome in genomes:
            drawn = self._tried_now(genome)
            if isinstance(drawn, Drawn) and self._is_new(drawn):
                return drawn
        self._empty.add(space.sketch)
        return None

    def _attempt(self, space: Space) -> Drawn | Refused | None:
        if space.choices is None:
            return self._programs.drawn(space.sketch, rand_state=self._random.randrange(1, _MAX_STATE))
        return self._tried_now(space.choices.drawn(self._random))

    def _tried_now(self, genome: Genome) -> Drawn | Refused | None:
        if genome in self._tried:
            return None
        self._tried.add(genome)
        return self._programs.new(genome)

    def _is_new(self, drawn: Drawn) -> bool:
        if drawn.program_hash in self._hashes:
            return False
        self._hashes.add(drawn.program_hash)
        self.useless = 0
        return True


def _shared_out(weights: Sequence[float], count: int, random: Random) -> list[int]:
    """`count` places, each as often as its weight says, give or take one: evenly spaced on their sum."""
    total = sum(weights)
    if count < 1 or total <= 0:
        return []
    step = total / count
    found: list[int] = []
    at, below = random.random() * step, 0.0
    for place, weight in enumerate(weights):
        below += weight
        while at < below and len(found) < count:
            found.append(place)
            at += step
    return found
