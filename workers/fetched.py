"""What a worker that only measures has from others: kernels and references, fetched by content, kept on disk.

It stands where a worker that builds has its artifact store and its reference cache. What the API has no
longer is told as ArtifactLost: the trial is built again, and is not the candidate's failure.
"""

import hashlib
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from sandbox.errors import ChannelError, ChildDied, ChildTimeout
from sandbox.fork_server import ForkServer
from sandbox.limits import Limits
from workers.artifact_client import ArtifactClient
from workers.artifacts import ArtifactStore
from workers.errors import ArtifactLost, ReferenceFailed
from workers.holding import Attempt, Holding
from workers.messages import MeasureChunk
from workers.reference import ANSWER_BYTES, ReferenceCache, input_rule, move_reference


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedKernels:
    """Kernels by the SHA-256 of their bytes; an ArtifactStore that fills itself."""

    client: ArtifactClient
    store: ArtifactStore

    @property
    def directory(self) -> Path:
        return self.store.directory

    def fetch(self, sha256: str, *, unwanted: Callable[[], bool]) -> None:
        """See to it that `get` has it. Raises ArtifactLost, ArtifactUnwanted."""
        if self.get(sha256) is not None:
            return
        library = self.client.fetch(sha256, unwanted=unwanted)
        if library is None:
            raise ArtifactLost(f"the kernel {sha256} is gone")
        self.store.put_bytes(sha256, library)
        if self.get(sha256) is None:
            raise ArtifactLost(f"the kernel {sha256} cannot be kept in {self.store.directory}")

    def get(self, sha256: str) -> bytes | None:
        library = self.store.get(sha256)
        if library is None or hashlib.sha256(library).hexdigest() != sha256:
            return None
        return library

    def put(self, key: str, library: Path) -> None:
        """Nothing is built here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedReferences:
    """References of chunks whose trials name them; inputs are made here, expected outputs are fetched."""

    server: ForkServer
    cache: ReferenceCache
    client: ArtifactClient

    def get(
        self, chunk: MeasureChunk, module_text: str, *, holding: Holding, attempts: Collection[Attempt]
    ) -> AbstractContextManager[Path]:
        """As of ReferenceCache. Raises ArtifactLost, ArtifactUnwanted, ReferenceFailed."""
        del module_text

        def make(place: Path) -> None:
            packed = self._fetch(chunk, holding, attempts)
            self._restore(chunk, packed, place, holding, attempts)

        return self.cache.using(chunk, make)

    def _fetch(self, chunk: MeasureChunk, holding: Holding, attempts: Collection[Attempt]) -> bytes:
        def unwanted() -> bool:
            return all(holding.dropped(attempt) for attempt in attempts)

        names = dict.fromkeys(order.built.reference for order in chunk.trials if order.built is not None)
        for sha256 in names:
            packed = self.client.fetch(sha256, unwanted=unwanted)
            if packed is not None:
                return packed
        raise ArtifactLost(f"the reference {', '.join(names)} is gone")

    def _restore(
        self,
        chunk: MeasureChunk,
        packed: bytes,
        place: Path,
        holding: Holding,
        attempts: Collection[Attempt],
    ) -> None:
        limit = chunk.policy.memory_limit_bytes
        limits = Limits(
            address_space_bytes=limit, cpu_secs=None, file_size_bytes=limit, answer_bytes=ANSWER_BYTES
        )
        with self.server.spawn("workers.reference_child:restore", limits=limits) as child:
            holding.attach(child, attempts)
            try:
                child.send({"rule": input_rule(chunk).as_json()}, packed)
                child.recv(self.cache.timeout_secs)
            except (ChildTimeout, ChildDied, ChannelError) as error:
                raise ReferenceFailed(f"what was fetched of it could not be unpacked: {error}") from error
            finally:
                holding.detach(child)
            move_reference(child.directory / "reference", place)
