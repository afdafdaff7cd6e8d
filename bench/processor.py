"""Processor seconds of processes, those that end meanwhile included where their parent has reaped them."""

from collections.abc import Iterable

import psutil

#: Seconds by stage.
Processor = dict[str, float]


def processor_secs(processes: Iterable[psutil.Process]) -> float:
    """User and system seconds of the processes and of their reaped children."""
    total = 0.0
    for process in processes:
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total
