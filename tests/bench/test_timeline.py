"""Where the wall-clock of a run went."""

from datetime import UTC, datetime
from typing import Any

import pytest

from bench.timeline import budget, gaps, moments

BEGAN = 1_000_000.0


def trial(purpose: str, done: float, **stage_secs: float) -> dict[str, Any]:
    done_at = datetime.fromtimestamp(BEGAN + done, tz=UTC).isoformat()
    return {"purpose": purpose, "done_at": done_at, "stage_secs": stage_secs}


TRIALS = [
    trial("baseline", 8.0, build=0.5, measure=1.0),
    trial("search", 9.0, replay=0.1, build=0.9, load=0.1, check=0.1, measure=0.3),
    trial("search", 9.2, build=1.0, measure=0.5),
    trial("search", 9.4, build=1.0, measure=0.5),
    trial("search", 12.0, build=1.0, measure=0.5),
    trial("confirm", 14.0, build=1.0, measure=3.0),
]


def test_the_parts_of_the_wall_clock_add_up():
    at = moments(TRIALS, began=BEGAN, ready=BEGAN + 5.0, submitted=BEGAN + 5.5, ended=BEGAN + 15.0)
    spent = budget(TRIALS, at, cores=2)
    assert sum(spent.parts.values()) == pytest.approx(spent.wall_secs) == pytest.approx(15.0)
    assert spent.parts["start-up of the service"] == pytest.approx(5.0)
    assert spent.parts["baseline and reference"] == pytest.approx(2.5)
    assert spent.parts["building (over 2 cores)"] == pytest.approx(2.0)
    assert spent.parts["measuring"] == pytest.approx(2.0)
    assert spent.parts["neither building nor measuring"] == pytest.approx(0.0)
    assert spent.parts["confirmation and end"] == pytest.approx(3.0)


def test_a_pause_is_what_no_candidate_explains():
    assert gaps(TRIALS) == [pytest.approx(2.6)]
