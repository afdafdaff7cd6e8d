"""Which cores build and which measure. Pure.

A target that leaves cores of the device free is measured while the next trials are built on those; one that
takes them all has builds and measurements in turns, for a build beside a measurement would be in its time.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Cores:
    measure_cpus: tuple[int, ...]
    build_cpus: tuple[int, ...]

    @property
    def threads(self) -> int:
        return len(self.measure_cpus)

    @property
    def takes_turns(self) -> bool:
        """Builds and measurements want the same cores."""
        return not set(self.measure_cpus).isdisjoint(self.build_cpus)


def divide(target: Mapping[str, Any], cpus: tuple[int, ...]) -> Cores:
    """The device's last cores measure, as many as the target names and the device has; the others build."""
    threads = max(1, min(int(target.get("num-cores", 1)), len(cpus)))
    free = cpus[:-threads]
    return Cores(measure_cpus=cpus[-threads:], build_cpus=free or cpus)
