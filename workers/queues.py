"""Names of queues and steps. One queue per target and role; one `results` queue; no result backend."""

#: Outcomes and started notices, consumed by the tuner service.
RESULTS = "tilefarm.results"
#: The Celery step that measures a chunk; its only argument is MeasureChunk as JSON.
MEASURE_STEP = "tilefarm.measure"


def measure_queue(target_key: str) -> str:
    """The queue of a target, by the SHA-256 (hex) of its canonical JSON."""
    return f"tilefarm.measure.{target_key[:16]}"
