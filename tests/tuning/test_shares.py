"""Owners share a target's devices by weight, whoever asks for more; within an owner priority decides."""

import heapq
from collections import Counter
from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from db.states import Purpose
from services.tuning.dispatch import Fairness, Waiting, next_chunk
from services.tuning.shares import Shares

CHUNK = 8
WEIGHTS = st.floats(min_value=0.2, max_value=5.0)


@dataclass(frozen=True)
class Owner:
    name: str
    weight: float
    trial_secs: float
    #: Searches with trials waiting at any time.
    jobs: int
    joins_at: float = 0.0


def simulate(owners: list[Owner], *, devices: int, until_secs: float) -> Counter[str]:
    """Device-seconds by owner, on devices that take the next chunk as soon as they are free."""
    fairness, used, weights = Fairness(), Counter[str](), {owner.name: owner.weight for owner in owners}
    under_way = Counter[str]()
    free = [(0.0, number, "", 0.0) for number in range(devices)]
    while free[0][0] < until_secs:
        now, device, ended, secs = heapq.heappop(free)
        if ended:
            used[ended] += secs
            under_way[ended] -= CHUNK
        queued = [
            Waiting(
                search_id=job,
                target_id=1,
                job_id=f"{owner.name}-{job}",
                purpose=Purpose.SEARCH,
                priority=0,
                count=1000,
                owner=owner.name,
            )
            for owner in owners
            if owner.joins_at <= now
            for job in range(owner.jobs)
        ]
        shares = Shares(used_secs=used, weights=weights, trial_secs=0.5)
        chosen = next_chunk(
            queued,
            room=CHUNK,
            size=CHUNK,
            dispatched={},
            fairness=fairness,
            standing=lambda owner, shares=shares: shares.standing(owner, under_way[owner]),
        )
        assert chosen is not None
        (owner,) = [owner for owner in owners if owner.name == chosen.waiting.owner]
        fairness.count(chosen.waiting.job_id)
        under_way[owner.name] += CHUNK
        took = CHUNK * owner.trial_secs
        heapq.heappush(free, (now + took, device, owner.name, took))
    return used


@settings(max_examples=12, deadline=None)
@given(
    weights=st.lists(WEIGHTS, min_size=2, max_size=4),
    trial_secs=st.lists(st.floats(min_value=0.2, max_value=2.0), min_size=4, max_size=4),
    jobs=st.lists(st.integers(min_value=1, max_value=6), min_size=4, max_size=4),
    devices=st.integers(min_value=1, max_value=3),
)
def test_device_seconds_follow_the_weights_however_many_jobs_and_however_slow_their_trials(
    weights: list[float], trial_secs: list[float], jobs: list[int], devices: int
) -> None:
    owners = [
        Owner(name=str(n), weight=weight, trial_secs=trial_secs[n], jobs=jobs[n])
        for n, weight in enumerate(weights)
    ]
    used = simulate(owners, devices=devices, until_secs=2000.0)
    total = sum(used.values())
    for owner in owners:
        fair = owner.weight / sum(weights)
        assert abs(used[owner.name] / total - fair) < 0.05, (owner, fair)


@settings(max_examples=8, deadline=None)
@given(weight=WEIGHTS, jobs=st.integers(min_value=1, max_value=20))
def test_who_comes_late_is_served_at_once_beside_an_owner_with_many_jobs(weight: float, jobs: int) -> None:
    flood = Owner(name="flood", weight=1.0, trial_secs=0.5, jobs=jobs)
    late = Owner(name="late", weight=weight, trial_secs=0.5, jobs=1, joins_at=1000.0)
    before = simulate([flood, late], devices=2, until_secs=1000.0)
    soon = simulate([flood, late], devices=2, until_secs=1020.0)
    assert before["late"] == 0
    assert soon["late"] >= 2 * 0.5 * CHUNK


def _queued(*kinds: tuple[str, str, int]) -> list[Waiting]:
    return [
        Waiting(
            search_id=number,
            target_id=1,
            job_id=job,
            purpose=Purpose.SEARCH,
            priority=priority,
            count=20,
            owner=owner,
        )
        for number, (owner, job, priority) in enumerate(kinds)
    ]


def _next(queued: list[Waiting], used: dict[str, float]) -> str:
    shares = Shares(used_secs=used, weights={}, trial_secs=1.0)
    chosen = next_chunk(
        queued,
        room=CHUNK,
        size=CHUNK,
        dispatched={},
        fairness=Fairness(),
        standing=lambda owner: shares.standing(owner, 0),
    )
    assert chosen is not None
    return chosen.waiting.job_id


def test_priority_decides_within_an_owner_and_does_not_reach_into_anothers_share() -> None:
    queued = _queued(("alice", "calm", 0), ("alice", "urgent", 9), ("bob", "bobs", 0))
    assert _next(queued, {"alice": 10.0, "bob": 20.0}) == "urgent"
    assert _next(queued, {"alice": 20.0, "bob": 10.0}) == "bobs"
