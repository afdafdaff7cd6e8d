"""Expected outputs of workloads: computed once in a sandboxed child, kept on disk by content.

It computes nothing itself. A workload without a reference is ReferenceFailed: the farm then fails the task,
not its trials one by one.
"""

import hashlib
import shutil
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from sandbox.directory import remove
from sandbox.errors import ChannelError, ChildDied, ChildTimeout
from sandbox.fork_server import ForkServer
from sandbox.limits import Limits
from workers.errors import ReferenceFailed, WorkerError
from workers.holding import Attempt, Holding
from workers.inputs import InputRule
from workers.messages import MeasureChunk
from workers.reference_files import evict, in_use, read_reference
from workers.staged import is_staged, staged

#: Counts up when inputs or the safe order change, so that old files are not used.
_FORMAT = 3
_DISK_SHARE = 0.5
#: Of the word of a child that it is done, or why not.
ANSWER_BYTES = 1 << 16
#: How often a reference is made that another worker evicts before it can be used.
_TRIES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceCache:
    """References in `directory`, which workers of a host may share; the least recently used go first.

    At most `max_bytes` of them, and never more than half of what the disk could hold: candidates need some.
    """

    server: ForkServer
    directory: Path
    linker: str | None
    timeout_secs: float
    max_bytes: int

    def get(
        self, chunk: MeasureChunk, module_text: str, *, holding: Holding, attempts: Collection[Attempt]
    ) -> AbstractContextManager[Path]:
        """The directory of the chunk's reference, which nobody evicts meanwhile.

        Raises ReferenceFailed with the reason.
        """
        return self.using(chunk, lambda place: self._compute(chunk, module_text, place, holding, attempts))

    @contextmanager
    def using(self, chunk: MeasureChunk, make: Callable[[Path], None]) -> Iterator[Path]:
        """The same; `make` puts it in place where it is not there. Raises what `make` raises."""
        place = self.place(chunk)
        with ExitStack() as stack:
            for _ in range(_TRIES):
                try:
                    stack.enter_context(in_use(place))
                    break
                except OSError:
                    make(place)
                    self.shrink(keep=place)
            else:
                raise WorkerError(f"the reference {place} was made and is not there")
            (place / "meta.json").touch()
            yield place

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
            answer_bytes=ANSWER_BYTES,
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
        """Drop the least recently used beyond the bound, unless somebody uses them."""
        places = [place for place in self.directory.iterdir() if place.is_dir() and not is_staged(place)]
        sizes = {place: _size_bytes(place) for place in places}
        most_bytes = min(self.max_bytes, int(_DISK_SHARE * shutil.disk_usage(self.directory).total))
        excess = sum(sizes.values()) - most_bytes
        for place in sorted(sizes, key=_last_used):
            if excess <= 0:
                return
            if place != keep and evict(place):
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
    """Into place at once, also from another file system; whoever comes second keeps the first's, if whole."""
    place.parent.mkdir(parents=True, exist_ok=True)
    new = staged(place)
    shutil.move(source, new)
    try:
        new.rename(place)
    except OSError:
        try:
            read_reference(place)
        except OSError:
            remove(place)
            new.rename(place)
        else:
            remove(new)


def _size_bytes(place: Path) -> int:
    """0 of one that another worker has just evicted."""
    with suppress(FileNotFoundError):
        return sum(file.stat().st_size for file in place.iterdir())
    return 0


def _last_used(place: Path) -> float:
    with suppress(FileNotFoundError):
        return (place / "meta.json").stat().st_mtime
    return 0.0
