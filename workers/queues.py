"""Names of queues and steps. One queue per target and role; one `results` queue; no result backend."""

import hashlib

from db.states import WorkerRole

#: Outcomes and notices of attempts, consumed by the tuner service.
RESULTS = "tilefarm.results"
#: The Celery step that measures a chunk; its only argument is MeasureChunk as JSON.
MEASURE_STEP = "tilefarm.measure"
#: The Celery step that builds a chunk for others to measure; its only argument is MeasureChunk as JSON.
BUILD_STEP = "tilefarm.build"
#: The Celery step by which a worker hears itself; its only argument is what it sent.
CANARY_STEP = "tilefarm.canary"


def work_queue(target_key: str, role: WorkerRole) -> str:
    """The queue of a target's workers of one role, by the SHA-256 (hex) of the target's canonical JSON."""
    return f"tilefarm.{role}.{target_key[:16]}"


def canary_queue(worker_name: str) -> str:
    """On which one worker hears itself; the same after a restart, so that nothing piles up in the broker."""
    return f"tilefarm.canary.{hashlib.sha256(worker_name.encode()).hexdigest()[:16]}"


def step_of(role: WorkerRole) -> str:
    """What is sent to workers of the role."""
    return BUILD_STEP if role is WorkerRole.BUILD else MEASURE_STEP
