"""`tilefarm.connect`: one line between a compiler and the service's records. It asks nothing yet."""

import atexit
import logging
from typing import TYPE_CHECKING

import httpx

from tilefarm.breaker import CircuitBreaker
from tilefarm.client import Client
from tilefarm.lookups import Lookups
from tilefarm.miss import OnMiss
from tilefarm.stats import Counters

if TYPE_CHECKING:
    from tilefarm.database import RemoteDatabase

#: After a failure nobody waits for the service for so long.
COOLING_SECS = 30.0
_log = logging.getLogger("tilefarm")


def connect(
    url: str | None = None,
    token: str | None = None,
    *,
    timeout_secs: float | None = None,
    on_miss: OnMiss = "warn",
    transport: httpx.BaseTransport | None = None,
) -> "RemoteDatabase":
    """A MetaSchedule Database of the service's records: `with tilefarm.connect(url): ...`.

    `timeout_secs` bounds one lookup altogether (default: TILEFARM_TIMEOUT_SECS, else 10). `on_miss` is
    "warn", "ignore", or a function that takes a tilefarm.Miss. A service that is away is no error here:
    queries then answer None, and after the first that waited in vain the next do not wait, for half a minute.
    Raises NotConfiguredError where no service is named.
    """
    from tilefarm.database import RemoteDatabase

    client = Client(url, token, timeout_secs=timeout_secs, transport=transport)
    lookups = Lookups(
        lambda target, tvm_version, workloads: client.lookup(
            target, tvm_version=tvm_version, workloads=workloads
        ),
        timeout_secs=client.settings.timeout_secs,
        breaker=CircuitBreaker(cooling_secs=COOLING_SECS),
    )
    counters = Counters()
    atexit.register(_say, client.url, counters)
    return RemoteDatabase(
        client, lookups, counters=counters, on_miss=on_miss, cache_dir=client.settings.cache_dir
    )


def _say(url: str, counters: Counters) -> None:
    _log.info("%s: %s", url, counters.snapshot())
