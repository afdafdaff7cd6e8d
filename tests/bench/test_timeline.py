"""Where the wall-clock of a run went."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from bench.timeline import budget, chunks, gaps, moments

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


def test_a_trial_that_was_ended_from_outside_counts_as_the_mean():
    untold = trial("search", 13.0)
    at = moments([*TRIALS, untold], began=BEGAN, ready=BEGAN + 5.0, submitted=BEGAN + 5.5, ended=BEGAN + 15.0)
    spent = budget([*TRIALS, untold], at, cores=2)
    assert spent.parts["building (over 2 cores)"] == pytest.approx(2.5)
    assert spent.parts["measuring"] == pytest.approx(2.5)


def log_line(event: str, second: int, *, chunk_id: str = "a", trials: int = 8) -> str:
    obj = {
        "event": event,
        "chunk_id": chunk_id,
        "trials": trials,
        "timestamp": f"2026-01-01T00:00:{second:02}Z",
    }
    return json.dumps(obj)


def test_a_worker_is_idle_between_its_chunks():
    found = chunks(
        [
            '{"event": "worker_joined", "timestamp": "2026-01-01T00:00:00Z"}',
            "worker: Warm shutdown (MainProcess)",
            log_line("chunk_started", 5),
            log_line("chunk_done", 9),
            log_line("chunk_started", 12, chunk_id="b", trials=4),
            log_line("chunk_done", 14, chunk_id="b", trials=4),
            log_line("chunk_started", 15, chunk_id="c"),
        ]
    )
    assert (found.count, found.trials) == (2, 12)
    assert (found.busy_secs, found.between_secs, found.longest_between_secs) == (6.0, 3.0, 3.0)
