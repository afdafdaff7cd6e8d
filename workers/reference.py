"""Expected outputs of workloads: computed once in a sandboxed child, kept on disk by content.

It computes nothing itself. A workload without a reference is ReferenceFailed: the farm then fails the task,
not its trials one by one.
"""

import hashlib
import shutil
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from sandbox.errors import ChannelError, ChildDied, ChildTimeout
from sandbox.fork_server import ForkServer
from sandbox.limits import Limits
from workers.errors import ReferenceFailed
from workers.holding import Attempt, Holding
from workers.inputs import InputRule
from workers.messages import MeasureChunk
from workers.reference_files import read_reference

#: Counts up when inputs or the safe order change, so that old files are not used.
_FORMAT = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceCache:
    """References in `directory`, at most `max_bytes` of them; the least recently used go first."""

    server: ForkServer
    directory: Path
    linker: str | None
    timeout_secs: float
    max_bytes: int

    def get(
        self, chunk: MeasureChunk, module_text: str, *, holding: Holding, attempts: Collection[Attempt]
    ) -> Path:
        """The directory of the chunk's reference; raises ReferenceFailed with the reason."""
        place = self.place(chunk)
        try:
            read_reference(place)
        except OSError:
            self._compute(chunk, module_text, place, holding, attempts)
            self.shrink(keep=place)
        else:
            (place / "meta.json").touch()
        return place

    def place(self, chunk: MeasureChunk) -> Path:
        """The directory of the chunk's reference, whether it is there or not."""
        return self.directory / reference_name(chunk)

    def _compute(
        self,
        chunk: MeasureChunk,
        module_text: str,
        place: Path,
        holding: Holding,
        attempts: Collection[Attempt],
    ) -> None:
        policy = chunk.policy
        limits = Limits(
            address_space_bytes=policy.memory_limit_bytes,
            cpu_secs=None,
            file_size_bytes=policy.memory_limit_bytes,
            may_start_processes=True,
        )
        order = {
            "module": module_text,
            "target": chunk.target,
            "rule": input_rule(chunk).as_json(),
            "linker": self.linker,
        }
        self.directory.mkdir(parents=True, exist_ok=True)
        with self.server.spawn("workers.reference_child:run", limits=limits) as child:
            holding.attach(child, attempts)
            try:
                child.send(order)
                child.recv(self.timeout_secs)
            except ChildTimeout as error:
                raise ReferenceFailed(f"not computed within {self.timeout_secs:g} s") from error
            except (ChildDied, ChannelError) as error:
                detail = f"the module as submitted did not run on generated inputs: {error}"
                raise ReferenceFailed(detail) from error
            finally:
                holding.detach(child)
            move_reference(child.directory / "reference", place)

    def shrink(self, *, keep: Path) -> None:
        """Drop the least recently used beyond `max_bytes`."""
        sizes = {place: _size_bytes(place) for place in self.directory.iterdir() if place.is_dir()}
        excess = sum(sizes.values()) - self.max_bytes
        for place in sorted(sizes, key=_last_used):
            if excess <= 0:
                return
            if place != keep:
                shutil.rmtree(place, ignore_errors=True)
                excess -= sizes[place]


def input_rule(chunk: MeasureChunk) -> InputRule:
    """From what the chunk's inputs follow."""
    policy = chunk.policy
    return InputRule(
        module_sha256=chunk.module_sha256,
        input_seed=policy.input_seed,
        integer_low=policy.integer_low,
        integer_high=policy.integer_high,
        ranges=policy.input_ranges,
    )


def reference_name(chunk: MeasureChunk) -> str:
    """The directory of the chunk's reference within the cache: everything it depends on, hashed."""
    return hashlib.sha256(f"{_FORMAT}:{input_rule(chunk).as_json()}".encode()).hexdigest()


def move_reference(source: Path, place: Path) -> None:
    """Into place at once, also from another file system; whoever comes second keeps the first's."""
    place.parent.mkdir(parents=True, exist_ok=True)
    staged = place.with_name(f".{place.name}.{source.parent.name}")
    shutil.move(source, staged)
    try:
        staged.rename(place)
    except OSError:
        shutil.rmtree(staged, ignore_errors=True)


def _size_bytes(place: Path) -> int:
    return sum(file.stat().st_size for file in place.iterdir())


def _last_used(place: Path) -> float:
    meta = place / "meta.json"
    return meta.stat().st_mtime if meta.exists() else 0.0
