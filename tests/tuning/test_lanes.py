"""Which queue has room: of workers that do both, or of two stages; nothing is built too far ahead."""

from collections.abc import Mapping

import pytest

from db.fleet import FleetWorker
from db.states import WorkerRole
from services.tuning.lanes import Crew, crew, lanes
from services.tuning.settings import TunerSettings

BOTH, BUILD, MEASURE = WorkerRole.BOTH, WorkerRole.BUILD, WorkerRole.MEASURE
SETTINGS = TunerSettings(database_url="sqlite://", broker_url="memory://", chunks_per_device=2)


def rooms(
    found: Crew, outstanding: Mapping[WorkerRole, int] | None = None, built_waiting: int = 0
) -> dict[WorkerRole, int]:
    made = lanes(found, outstanding or {}, built_waiting=built_waiting, size=8, settings=SETTINGS)
    return {lane.role: lane.room for lane in made}


@pytest.mark.parametrize(
    ("case", "found", "outstanding", "built_waiting", "expected"),
    [
        ("two chunks for each device", Crew(both=1), {BOTH: 5}, 0, {BOTH: 11}),
        ("a full queue", Crew(both=2), {BOTH: 40}, 0, {BOTH: 0}),
        ("nobody", Crew(), {}, 0, {}),
        ("nobody builds what could be timed", Crew(measure=2), {}, 3, {MEASURE: 32}),
        ("nobody times what could be built", Crew(build=2), {}, 0, {}),
        ("two stages", Crew(build=1, measure=1), {}, 0, {MEASURE: 16, BUILD: 16}),
        ("one builder for three boards", Crew(build=1, measure=3), {}, 0, {MEASURE: 48, BUILD: 16}),
        ("not further ahead than this", Crew(build=4, measure=1), {BUILD: 8}, 20, {MEASURE: 16, BUILD: 4}),
        ("far ahead", Crew(build=4, measure=1), {}, 99, {MEASURE: 16, BUILD: 0}),
        ("all roles", Crew(both=1, build=1, measure=1), {}, 0, {MEASURE: 16, BOTH: 16, BUILD: 16}),
    ],
)
def test_a_lane_has_room(
    case: str,
    found: Crew,
    outstanding: Mapping[WorkerRole, int],
    built_waiting: int,
    expected: Mapping[WorkerRole, int],
) -> None:
    assert rooms(found, outstanding, built_waiting) == expected, case


def test_what_is_built_goes_to_those_who_time_and_to_both_where_there_are_none() -> None:
    (measure, build) = lanes(Crew(build=1, measure=1), {}, built_waiting=0, size=8, settings=SETTINGS)
    assert (measure.takes(built=True), measure.takes(built=False)) == (True, False)
    assert (build.takes(built=True), build.takes(built=False)) == (False, True)
    (both,) = lanes(Crew(both=1), {}, built_waiting=4, size=8, settings=SETTINGS)
    assert both.takes(built=True)
    assert both.takes(built=False)


def test_a_crew_is_those_who_take_chunks_of_the_target() -> None:
    def worker(role: WorkerRole, *, target_id: int = 1, accepts: bool = True) -> FleetWorker:
        return FleetWorker(
            id="w", target_id=target_id, role=role, alive=True, accepts=accepts, holding=frozenset()
        )

    workers = [worker(BUILD), worker(MEASURE), worker(MEASURE, accepts=False), worker(BOTH, target_id=2)]
    assert crew(workers, 1) == Crew(build=1, measure=1)
    assert [crew(workers, target).devices for target in (1, 2, 3)] == [1, 1, 0]
    assert crew(workers[1:], 1).devices == 0
