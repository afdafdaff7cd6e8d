"""Programs by their genomes: what is known to be known is not replayed again."""

from dataclasses import dataclass

from tuner.module import structural_hash
from tuner.search.genome import Genome, Sketch, genome_in
from tuner.search.known import Known
from tuner.search.picks import Drawn
from tuner.search.replay import Replayer


@dataclass(frozen=True, slots=True)
class Refused:
    """The decisions do not fit, or a postproc rejects the program."""


REFUSED = Refused()


class Programs:
    """Of one search. It remembers which program a genome is: a memo, which changes no answer."""

    def __init__(self, replay: Replayer, known: Known) -> None:
        self._replay = replay
        self._known = known
        self._hashes: dict[Genome, str | None] = {}

    @property
    def refused_by(self) -> frozenset[str]:
        """Names of the postprocs that have rejected a program."""
        return frozenset(self._replay.refused_by)

    def new(self, genome: Genome) -> Drawn | Refused | None:
        """The genome's program; None where it is a known one."""
        if genome in self._hashes:
            program_hash = self._hashes[genome]
            if program_hash is None:
                return REFUSED
            if self._known.has_program(program_hash):
                return None
        schedule = self._replay(genome)
        if schedule is None:
            self._hashes[genome] = None
            return REFUSED
        program_hash = self._hashes[genome] = structural_hash(schedule.mod)
        if self._known.has_program(program_hash):
            return None
        return Drawn(schedule, sketch=genome.sketch, genome=genome, program_hash=program_hash)

    def drawn(self, sketch: Sketch, *, rand_state: int) -> Drawn | Refused | None:
        """As `new`, TVM drawing the decisions."""
        schedule = self._replay.drawn(sketch, rand_state=rand_state)
        if schedule is None:
            return REFUSED
        program_hash = structural_hash(schedule.mod)
        if self._known.has_program(program_hash):
            return None
        genome = genome_in(schedule.trace, sketch)
        return Drawn(schedule, sketch=sketch, genome=genome, program_hash=program_hash)
