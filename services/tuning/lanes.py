"""Where a target's trials may go next: to workers that build and time, or through two stages. Pure.

A lane is the queue of one target and role. Its room is short on purpose: order and fairness are decided on
rows, at dispatch, and what waits in a queue is decided already.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from db.fleet import FleetWorker
from db.states import WorkerRole
from services.tuning.settings import TunerSettings

#: What is built may be so many times what the measuring workers are sent at once.
_BUILT_AHEAD = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Crew:
    """A target's workers that take chunks now, by role."""

    both: int = 0
    build: int = 0
    measure: int = 0

    @property
    def devices(self) -> int:
        """Devices that can be kept busy: one that only times needs somebody who builds."""
        return self.both + (self.measure if self.build else 0)

    def of(self, role: WorkerRole) -> int:
        counts = {WorkerRole.BUILD: self.build, WorkerRole.MEASURE: self.measure}
        return counts.get(role, self.both)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """A queue that takes `room` trials more; those that are built, those that are not, or either."""

    role: WorkerRole
    room: int
    workers: int

    def takes(self, *, built: bool) -> bool:
        return self.role is WorkerRole.BOTH or built is (self.role is WorkerRole.MEASURE)


def crew(workers: Iterable[FleetWorker], target_id: int) -> Crew:
    roles = [worker.role for worker in workers if worker.accepts and worker.target_id == target_id]
    return Crew(
        both=roles.count(WorkerRole.BOTH),
        build=roles.count(WorkerRole.BUILD),
        measure=roles.count(WorkerRole.MEASURE),
    )


def lanes(
    crew: Crew,
    outstanding: Mapping[WorkerRole, int],
    *,
    built_waiting: int,
    size: int,
    settings: TunerSettings,
) -> list[Lane]:
    """The lanes of a target, in the order in which they are filled.

    Nothing is built that nobody will time, nor more than a short while ahead. What is built goes to workers
    that only measure while there are any; else those that do both build it again.
    """
    each = settings.chunks_per_device * size
    found = []
    if crew.measure:
        found.append(_lane(WorkerRole.MEASURE, crew, outstanding, most=crew.measure * each))
    if crew.both:
        found.append(_lane(WorkerRole.BOTH, crew, outstanding, most=crew.both * each))
    if crew.measure and crew.build:
        ahead = _BUILT_AHEAD * crew.measure * each - built_waiting
        found.append(_lane(WorkerRole.BUILD, crew, outstanding, most=min(crew.build * each, ahead)))
    return found


def _lane(role: WorkerRole, crew: Crew, outstanding: Mapping[WorkerRole, int], *, most: int) -> Lane:
    return Lane(role=role, room=max(0, most - outstanding.get(role, 0)), workers=crew.of(role))
