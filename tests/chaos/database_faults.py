"""PostgreSQL restarts in the middle of a transaction, hangs, is cut off, has no connection left, no disk."""

import contextlib
import signal
import time

import httpx
import psycopg

from tests.chaos.disk import full
from tests.chaos.farm import Farm, Setup
from tests.chaos.fault import Fault, Injected, Mark
from tests.chaos.worker_faults import cannot_mount
from tests.servers import stopped

_WAIT_SECS = 30.0
_HELD_SECS = 8.0
_FULL_SECS = 8.0
#: Longer than the tuner service waits for an answer.
_HUNG_SECS = 40.0
_CONNECTIONS = 40
_WRITING = """SELECT count(*) FROM pg_stat_activity
              WHERE backend_xid IS NOT NULL AND pid <> pg_backend_pid() AND backend_type = 'client backend'"""


def _restarted(farm: Farm, job_id: str) -> Injected:
    """Immediate shutdown, as a crash, at a moment at which a transaction has written and not committed."""
    secs = []
    for _ in range(3):
        mark = Mark(farm, job_id)
        with psycopg.connect(farm.postgres.dsn(), autocommit=True) as connection:
            deadline = time.monotonic() + _WAIT_SECS
            while not connection.execute(_WRITING).fetchone()[0]:
                assert time.monotonic() < deadline, "no transaction was seen writing"
        farm.postgres.end(signal.SIGQUIT)
        farm.postgres.start()
        mark.restart_clock()
        secs.append(mark.recovered())
    return Injected(times=3, recovery_secs=secs)


def _hangs(farm: Farm, job_id: str) -> Injected:
    """What was given up may be carried out all the same when it goes on: nothing may be twice."""
    mark = Mark(farm, job_id)
    before = farm.count_events("tuner", "database_away")
    with stopped(farm.postgres):
        time.sleep(_HUNG_SECS)
    mark.restart_clock()
    recovery_secs = mark.recovered()
    assert farm.count_events("tuner", "database_away") > before, "the tuner did not notice"
    note = f"all its processes stopped for {_HUNG_SECS:.0f} s, connections open"
    return Injected(times=1, recovery_secs=[recovery_secs], note=note)


def _upgraded(farm: Farm, job_id: str) -> Injected:
    """What an upgrade holds that fills a new column of `trials`: nobody reads or writes the table."""
    mark = Mark(farm, job_id)
    before = farm.count_events("tuner", "database_away")
    with psycopg.connect(farm.postgres.dsn(farm.database)) as upgrade:
        upgrade.execute("LOCK TABLE trials IN ACCESS EXCLUSIVE MODE")
        asked = {"Authorization": f"Bearer {farm.service.token}"}
        answer = httpx.get(f"{farm.service.url}/v1/jobs/{job_id}", headers=asked, timeout=_WAIT_SECS)
        assert (answer.status_code, "Retry-After" in answer.headers) == (503, True), answer.text
        time.sleep(_HUNG_SECS)
    mark.restart_clock()
    secs = [mark.recovered()]
    assert farm.count_events("tuner", "database_away") > before, "the tuner did not notice"
    return Injected(times=1, recovery_secs=secs, note=f"for {_HUNG_SECS:.0f} s; the API answers 503")


def _tuner_cut_off(farm: Farm, job_id: str) -> Injected:
    """No packet comes through, then every connection is forgotten: no end is told, no process stopped.

    What the server holds for the tuner it holds on, until its own limit of a silent transaction.
    """
    secs = []
    for forgets in (False, True):
        mark = Mark(farm, job_id)
        before = farm.count_events("tuner", "database_away")
        if forgets:
            farm.database_proxy.forget()
        else:
            farm.database_proxy.cut(silently=True)
            time.sleep(_HUNG_SECS)
            farm.database_proxy.mend()
            mark.restart_clock()
        secs.append(mark.recovered())
        assert farm.count_events("tuner", "database_away") > before, "the tuner did not notice"
    note = f"packets swallowed for {_HUNG_SECS:.0f} s; then open connections silent for ever"
    return Injected(times=2, recovery_secs=secs, note=note)


def _pool_exhausted(farm: Farm, job_id: str) -> Injected:
    """All connections of the farm are broken, and others take every place of the server."""
    mark = Mark(farm, job_id)
    held = []
    with contextlib.ExitStack() as stack:
        own = stack.enter_context(psycopg.connect(farm.postgres.dsn(), autocommit=True))
        own.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
        )
        deadline = time.monotonic() + _HELD_SECS
        while time.monotonic() < deadline:
            try:
                held.append(stack.enter_context(psycopg.connect(farm.postgres.dsn())))
            except psycopg.OperationalError:
                time.sleep(0.05)
    mark.restart_clock()
    note = f"{len(held)} of {_CONNECTIONS} places held for {_HELD_SECS:.0f} s"
    return Injected(times=1, recovery_secs=[mark.recovered()], note=note)


def _disk_full(farm: Farm, job_id: str) -> Injected:
    mark = Mark(farm, job_id)
    with full(farm.small_disk):
        time.sleep(_FULL_SECS)
    mark.restart_clock()
    said = farm.postgres.log.read_text(errors="replace").count("No space left on device")
    assert said, "PostgreSQL did not notice that its disk was full"
    note = f"full for {_FULL_SECS:.0f} s; PostgreSQL said so {said} times"
    return Injected(times=1, recovery_secs=[mark.recovered()], note=note)


DATABASE_FAULTS = (
    Fault(name="PostgreSQL restarted mid-transaction", inject=_restarted, trials=96),
    Fault(name="PostgreSQL hangs", inject=_hangs, trials=96),
    Fault(name="an upgrade holds the table of trials", inject=_upgraded, trials=96),
    Fault(
        name="PostgreSQL cut off from the tuner only",
        inject=_tuner_cut_off,
        setup=Setup(database_proxied=frozenset({"tuner"})),
        trials=160,
    ),
    Fault(
        name="PostgreSQL's connections exhausted",
        inject=_pool_exhausted,
        setup=Setup(postgres_options=(f"max_connections={_CONNECTIONS}",)),
        trials=96,
    ),
    Fault(
        name="PostgreSQL's disk full",
        inject=_disk_full,
        setup=Setup(small_disk="postgres"),
        unable=cannot_mount,
        trials=96,
    ),
)
