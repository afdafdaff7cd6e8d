"""What the device says of itself while it works: temperature and clock, where this host tells them.

Read from /sys and /proc, seldom and rounded, so that a heartbeat carries it only when it has changed. Nothing
is decided by it: whether a device is slower than it was is workers/drift.py's.
"""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from workers.seldom import Seldom
from workers.selftester import DeviceReport

_CPU_CHIPS = frozenset({"coretemp", "k10temp", "zenpower", "cpu_thermal"})
_CPU_ZONES = frozenset({"x86_pkg_temp", "cpu-thermal", "cpu_thermal"})
#: The kernel writes thousandths of a degree; clocks in kHz, or in MHz in cpuinfo.
_MILLI = 1000.0
_CLOCK_STEP_MHZ = 50.0


@dataclass(slots=True, kw_only=True)
class Sensors(Seldom):
    """Of one CPU device."""

    cpus: Sequence[int]
    #: Where /sys and /proc are.
    root: Path = Path("/")

    def _asked(self) -> dict[str, float]:
        found = {"temperature_celsius": self._celsius(), "clock_mhz": self._mhz()}
        return {name: value for name, value in found.items() if value is not None}

    def _celsius(self) -> float | None:
        """The hottest sensor of the processor."""
        sys_class = self.root / "sys" / "class"
        chips = [path for path in sys_class.glob("hwmon/hwmon*") if _text(path / "name") in _CPU_CHIPS]
        inputs = [each for chip in chips for each in chip.glob("temp*_input")]
        zones = [
            path for path in sys_class.glob("thermal/thermal_zone*") if _text(path / "type") in _CPU_ZONES
        ]
        found = [_number(path) for path in inputs] or [_number(zone / "temp") for zone in zones]
        known = [value / _MILLI for value in found if value is not None]
        return round(max(known)) if known else None

    def _mhz(self) -> float | None:
        """The mean over the device's CPUs."""
        cpus = self.root / "sys" / "devices" / "system" / "cpu"
        found = [_number(cpus / f"cpu{cpu}" / "cpufreq" / "scaling_cur_freq") for cpu in self.cpus]
        known = [value / _MILLI for value in found if value is not None] or self._cpuinfo_mhz()
        return round(sum(known) / len(known) / _CLOCK_STEP_MHZ) * _CLOCK_STEP_MHZ if known else None

    def _cpuinfo_mhz(self) -> list[float]:
        lines = [line.partition(":") for line in _text(self.root / "proc" / "cpuinfo").splitlines()]
        every = [value for name, _, value in lines if name.strip() == "cpu MHz"]
        return [float(every[cpu]) for cpu in self.cpus if cpu < len(every)]


def sensing(report: Callable[[], DeviceReport], sensors: Seldom) -> Callable[[], DeviceReport]:
    """The report, with what the sensors say among its facts."""

    def both() -> DeviceReport:
        told = report()
        values = sensors.read()
        return dataclasses.replace(told, facts={**told.facts, "sensors": values}) if values else told

    return both


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""


def _number(path: Path) -> float | None:
    try:
        return float(_text(path))
    except ValueError:
        return None
