"""`tilefarm.connect`: one line between a compiler and the service's records. It asks nothing yet."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, get_args

from tilefarm import lockfile, pairs, summary
from tilefarm.anchor import ModuleEquality
from tilefarm.answers import Answering
from tilefarm.breaker import CircuitBreaker
from tilefarm.cache import DiskCache
from tilefarm.client import Client
from tilefarm.contributing import Contributor
from tilefarm.errors import NotConfiguredError
from tilefarm.lookups import Lookups
from tilefarm.miss import OnMiss
from tilefarm.misses import Misses
from tilefarm.near import NearHits, NearRule
from tilefarm.proven import Proven
from tilefarm.settings import Settings
from tilefarm.signatures import PublicKeys, Verifier
from tilefarm.submitting import Submitter

if TYPE_CHECKING:
    import httpx

    from tilefarm.database import RemoteDatabase

#: After a failure nobody waits for the service for so long.
COOLING_SECS = 30.0
Mode = Literal["read", "read-write", "offline"]


def connect(  # noqa: PLR0913 - the one line that a compiler has; each may be left out
    url: str | None = None,
    token: str | None = None,
    *,
    timeout_secs: float | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    mode: Mode = "read",
    on_miss: OnMiss = "warn",
    public_key: PublicKeys | None = None,
    near: Sequence[NearRule] = (),
    module_equality: ModuleEquality = "structural",
    lock: str | os.PathLike[str] | None = None,
    transport: "httpx.BaseTransport | None" = None,
) -> "RemoteDatabase":
    """A MetaSchedule Database of the service's records: `with tilefarm.connect(url): ...`.

    `timeout_secs` bounds one lookup altogether (default: TILEFARM_TIMEOUT_SECS, else 10). `cache_dir` keeps
    answers for all processes of this user (default: TILEFARM_CACHE_DIR). `mode` "offline" makes no request:
    only what is in the cache, or in the lock file, answers; "read-write" sends what is committed (by a tuning
    run of this process) to the service, into quarantine. `on_miss` is "warn", "silent", "submit" (the farm
    is sent what was missed, and nobody waits), or a function that takes a tilefarm.Miss. `lock` names a lock
    file (default: TILEFARM_LOCK), which then alone answers. `public_key` (default: TILEFARM_PUBLIC_KEY) is
    one key or several, as `tilefarm-server key show` prints them, or PEM: then only a record that one of them
    signed is one, wherever it was kept. `near` names rules by which, where there is no exact record, one of
    another target may be used: "num-cores", "mcpu-family", or of another function around the same costliest
    block: "anchor-block"; each use is logged and counted apart. `module_equality` is TVM's: "anchor-block"
    means that rule as well, and, like "ignore-tensor", how what is committed here is compared.

    A service that is away is no error here: queries then answer None, and after the first that waited in vain
    the next do not wait, for half a minute. Raises NotConfiguredError where no service is named or a key does
    not read, TvmPairError where TVM would crash, LockError where the lock file does not read.
    """
    _check(mode, on_miss, module_equality)
    if module_equality == "anchor-block":
        near = (*near, "anchor-block")
    settings = Settings.load(url=url, token=token, timeout_secs=timeout_secs, cache_dir=cache_dir, lock=lock)
    pairs.require_safe(settings.cache_dir)
    from tilefarm.database import RemoteDatabase

    locked = None if settings.lock is None else lockfile.read(settings.lock)
    needs_service = mode != "offline" and locked is None
    client = None
    if mode != "offline" and (needs_service or settings.url is not None):
        client = Client(
            settings.require_url(), settings.token, timeout_secs=settings.timeout_secs, transport=transport
        )
    service_url = settings.url or "offline"
    cache = DiskCache.of_service(settings.cache_dir, service_url, max_bytes=settings.cache_max_bytes)
    breaker = CircuitBreaker(cooling_secs=COOLING_SECS)
    answering: Answering = locked or Lookups(
        client, timeout_secs=settings.timeout_secs, breaker=breaker, cache=cache
    )
    return RemoteDatabase(
        client,
        answering,
        lock=locked,
        cache=cache,
        proven=Proven(settings.cache_dir / "applied-1"),
        counters=summary.counters(service_url, settings.cache_dir, aloud=on_miss in ("warn", "submit")),
        contributor=Contributor(client) if client is not None and mode == "read-write" else None,
        misses=Misses(
            on_miss,
            cache_dir=settings.cache_dir,
            submitter=Submitter(client) if client is not None and on_miss == "submit" else None,
        ),
        near=_near(client if locked is None else None, near, settings.timeout_secs, breaker),
        module_equality=module_equality,
        breaker=breaker,
        timeout_secs=settings.timeout_secs,
        verifier=Verifier.of(settings.public_key if public_key is None else public_key),
    )


def _near(
    client: Client | None, rules: Sequence[NearRule], timeout_secs: float, breaker: CircuitBreaker
) -> NearHits | None:
    """None without rules, and where a lock file or the cache alone answers: what they hold is exact."""
    if not rules or client is None:
        return None
    return NearHits(client, rules, timeout_secs=timeout_secs, breaker=breaker)


def _check(mode: str, on_miss: OnMiss, module_equality: str) -> None:
    if module_equality not in get_args(ModuleEquality):
        known = ", ".join(get_args(ModuleEquality))
        raise NotConfiguredError(f"module_equality is one of {known}, not {module_equality!r}")
    if mode not in ("read", "read-write", "offline"):
        raise NotConfiguredError(f"mode is 'read', 'read-write' or 'offline', not {mode!r}")
    if not callable(on_miss) and on_miss not in ("warn", "silent", "submit"):
        raise NotConfiguredError(f"on_miss is 'warn', 'silent', 'submit' or a function, not {on_miss!r}")
