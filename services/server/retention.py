"""`tilefarm-server db thin`: old trials in small transactions, beside a running farm.

What may go stands in db/thinning.py.
"""

from sqlalchemy import Engine

from db.session import connect, reading, transaction
from db.thinning import idle_searches, thin

_SECS_PER_DAY = 86_400.0
#: Trials of one transaction: it holds no lock for long.
_BATCH = 500
_SEARCHES = 200


def thin_all(url: str, *, days: float, keep: int) -> int:
    """Thin every search that nothing uses; tells how many trials that were."""
    engine = connect(url, pool_size=1)
    try:
        trials = _thin_searches(engine, ended_before_secs=days * _SECS_PER_DAY, keep=keep)
    finally:
        engine.dispose()
    print(f"{trials} trials thinned")
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
