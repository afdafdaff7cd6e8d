"""Which machine a number was measured on: numbers of two machines are never put side by side."""

import hashlib
import json
import os
import platform
import subprocess
from dataclasses import dataclass
from importlib.metadata import version

from workers.device import cpu_model


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    cpu: str
    cores: int
    memory_gib: int
    kernel: str
    tvm: str

    @property
    def key(self) -> str:
        """A directory's name: readable, and different where anything is different."""
        text = json.dumps([self.cpu, self.cores, self.memory_gib, self.kernel, self.tvm])
        digest = hashlib.sha256(text.encode()).hexdigest()[:10]
        return f"{self.cores}c-{digest}"

    def __str__(self) -> str:
        return f"{self.cpu}, {self.cores} cores, {self.memory_gib} GiB, TVM {self.tvm}"


def this_machine() -> Machine:
    pages = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return Machine(
        cpu=cpu_model(),
        cores=len(os.sched_getaffinity(0)),
        memory_gib=round(pages / (1 << 30)),
        kernel=platform.release(),
        tvm=version("apache-tvm"),
    )


def load_average() -> float:
    """Of the last minute: above the number of cores that are meant to be idle, a benchmark is worthless."""
    return os.getloadavg()[0]


def commit() -> str:
    """The short hash of what is checked out, `+` where it was changed; empty outside git, or without it."""
    words = ["git", "describe", "--always", "--dirty=+"]
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
