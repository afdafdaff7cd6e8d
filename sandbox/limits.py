"""What a child may use. Plain data; sandbox/confine.py applies it inside the child."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from sandbox.channel import MAX_FRAME_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of one child; None means no limit of that kind."""

    #: RLIMIT_AS, everything mapped, what the server preloaded included.
    address_space_bytes: int | None = 4 << 30
    #: RLIMIT_CPU, rounded up to whole seconds; the kernel sends SIGKILL one second later.
    cpu_secs: float | None = 60.0
    #: RLIMIT_FSIZE, for each file.
    file_size_bytes: int | None = 64 << 20
    open_files: int | None = 128
    #: Of one answer, JSON and blobs: what its parent reads and parses.
    answer_bytes: int = MAX_FRAME_BYTES
    #: Leave the wall of sandbox/seccomp.py to the child: it has a linker to run first.
    may_start_processes: bool = False
    #: Run the entry on a thread with a stack of LARGE_STACK_BYTES: TVM's loader recurses deeply.
    large_stack: bool = False
    #: SCHED_IDLE: the child runs only where nobody else wants the CPU. It cannot be undone.
    idle_priority: bool = False
    #: CPUs the child may run on; None leaves what the server has.
    cpus: tuple[int, ...] | None = None
    #: Paths that it may open for writing besides its directory: a GPU driver's device files, and what else it
    #: writes to.
    device_files: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, obj: Mapping[str, Any]) -> Self:
        fields = dict(obj)
        if fields.get("cpus") is not None:
            fields["cpus"] = tuple(fields["cpus"])
        fields["device_files"] = tuple(fields.get("device_files", ()))
        return cls(**fields)


#: A stack on which 100,000 levels of TVM's recursive loader fit.
LARGE_STACK_BYTES = 512 << 20
