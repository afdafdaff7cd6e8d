"""`tilefarm-server db thin`: old trials in small transactions, beside a running farm.

What may go stands in db/thinning.py, and in db/workers.py.
"""

from sqlalchemy import Engine

from db.session import connect, reading, transaction
from db.thinning import idle_searches, thin
from db.workers import forget_left

_SECS_PER_DAY = 86_400.0
#: Trials of one transaction: it holds no lock for long.
_BATCH = 500
_SEARCHES = 200


def thin_all(url: str, *, days: float, keep: int) -> int:
    """Thin every search that nothing uses, forget workers that left; tells how many each were."""
    engine = connect(url, pool_size=1)
    try:
        trials = _thin_searches(engine, ended_before_secs=days * _SECS_PER_DAY, keep=keep)
        workers = _forget_workers(engine, silent_secs=days * _SECS_PER_DAY)
    finally:
        engine.dispose()
    print(f"{trials} trials thinned, {workers} workers forgotten")
    return 0


def _thin_searches(engine: Engine, *, ended_before_secs: float, keep: int) -> int:
    trials, last = 0, 0
    while True:
        with reading(engine) as session:
            found = idle_searches(session, after=last, limit=_SEARCHES)
        if not found:
            return trials
        for last in found:
            trials += _thin_search(engine, last, ended_before_secs=ended_before_secs, keep=keep)


def _thin_search(engine: Engine, search_id: int, *, ended_before_secs: float, keep: int) -> int:
    trials = 0
    while True:
        with transaction(engine) as session:
            count = thin(session, search_id, keep=keep, ended_before_secs=ended_before_secs, limit=_BATCH)
        trials += count
        if count < _BATCH:
            return trials


def _forget_workers(engine: Engine, *, silent_secs: float) -> int:
    workers = 0
    while True:
        with transaction(engine) as session:
            count = forget_left(session, silent_secs=silent_secs, limit=_BATCH)
        workers += count
        if count < _BATCH:
            return workers
