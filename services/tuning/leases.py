"""Which searches this replica leases: claimed where a task needs them, renewed, released, forgotten."""

import time
from collections.abc import Iterator, Mapping, Sequence

import structlog
from sqlalchemy import Engine

from db import searches
from db.searches import Lease
from db.session import reading, transaction
from services.tuning.settings import TunerSettings

_log = structlog.get_logger(__name__)

#: Free searches that are looked at in one tick at least.
_MOST_FREE = 1024


class Leases(Mapping[int, Lease]):
    """The leases held, by search. A lease in here may be lost already: only the fence on its row decides."""

    def __init__(self, *, engine: Engine, owner: str, settings: TunerSettings) -> None:
        self._engine = engine
        self._owner = owner
        self._settings = settings
        self._held: dict[int, Lease] = {}
        self._renewed_at = 0.0
        #: In time.monotonic(): when a search was first seen to be free and needed.
        self._free_since: dict[int, float] = {}

    @property
    def owner(self) -> str:
        """Of all of them."""
        return self._owner

    def __getitem__(self, search_id: int) -> Lease:
        return self._held[search_id]

    def __iter__(self) -> Iterator[int]:
        return iter(self._held)

    def __len__(self) -> int:
        return len(self._held)

    def keep(self) -> None:
        """Renew in time, take what is free and needed, release what nobody needs."""
        if time.monotonic() - self._renewed_at > self._settings.lease_secs / 3:
            self._renew()
        with reading(self._engine) as session:
            free = searches.free_searches(session, limit=max(_MOST_FREE, self._settings.max_leases))
            needed = searches.needed_searches(session, self._held)
        for search_id in self._due(free):
            self._claim(search_id)
        for search_id in set(self._held) - needed - set(free):
            self.release(search_id)

    def _due(self, free: Sequence[int]) -> list[int]:
        """Those that there is room for, and those that no other replica takes either.

        A job waits for the search that its next round is for, whatever its other searches could do.
        """
        now = time.monotonic()
        self._free_since = {search_id: self._free_since.get(search_id, now) for search_id in free}
        room = max(0, self._settings.max_leases - len(self._held))
        patience_secs = self._settings.lease_secs / 3
        left = [search_id for search_id in free[room:] if now - self._free_since[search_id] > patience_secs]
        return [*free[:room], *left]

    def forget(self, search_id: int) -> None:
        self._held.pop(search_id, None)

    def release(self, search_id: int) -> None:
        lease = self._held.pop(search_id, None)
        if lease is not None:
            with transaction(self._engine) as session:
                searches.release_lease(session, lease)

    def release_all(self) -> None:
        for search_id in list(self._held):
            self.release(search_id)

    def _renew(self) -> None:
        self._renewed_at = time.monotonic()
        if not self._held:
            return
        with transaction(self._engine) as session:
            held = searches.renew_leases(session, self._held.values(), secs=self._settings.lease_secs)
        for search_id in set(self._held) - held:
            _log.warning("lease_lost", search_id=search_id)
            self.forget(search_id)

    def _claim(self, search_id: int) -> None:
        with transaction(self._engine) as session:
            lease = searches.claim_search(
                session, search_id, owner=self._owner, secs=self._settings.lease_secs
            )
        if lease is not None:
            self._held[search_id] = lease
            _log.info("search_leased", search_id=search_id, epoch=lease.epoch)
