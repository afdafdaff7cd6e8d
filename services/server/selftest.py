"""`tilefarm-server selftest`: the worker's self-test of this host's device, as a table for a person."""

import tempfile
from pathlib import Path

from workers.children_server import children_server
from workers.device import detect_target, find_device
from workers.selftest import DeviceTester, SelfTest
from workers.settings import WorkerSettings
from workers.turn import Turn


def run(settings: WorkerSettings) -> int:
    """Raises WorkerError or SandboxError where the device cannot be tested."""
    device = find_device(
        settings.worker_device,
        num_cores=settings.worker_cores,
        lock_dir=settings.lock_dir,
        gpu=settings.worker_gpu,
    )
    with (
        tempfile.TemporaryDirectory() as directory,
        children_server(Path(directory), device=device, target=None) as server,
    ):
        detected = detect_target(server, num_cores=len(device.cpus), device=device)
        result = DeviceTester(server=server, device=device, target=detected.target, turn=Turn()).run()
    for name, value in table(device.device_class, result):
        print(f"{name:<34}{value}")
    return 0


def table(device_class: str, result: SelfTest) -> list[tuple[str, str]]:
    """Name and value of each line."""
    peak, noise = result.roofline, result.noise
    cache = "unknown" if peak.last_cache_bytes is None else f"{peak.last_cache_bytes / 2**20:.0f} MiB"
    arrays = f"two arrays of {peak.copy_array_bytes / 2**20:.0f} MiB, last cache {cache}"
    return [
        ("device", device_class),
        ("peak, one core", _told(peak.fma_gflops_one_core, "{:.0f} GFLOP/s")),
        ("peak, all cores", f"{peak.fma_gflops_all_cores:.0f} GFLOP/s"),
        ("copy, one core", _told(peak.copy_gb_per_sec_one_core, "{:.1f} GB/s")),
        ("copy, all cores", f"{peak.copy_gb_per_sec_all_cores:.1f} GB/s ({arrays})"),
        ("reference kernel", f"{noise.reference_secs * 1e6:.1f} µs"),
        ("noise between processes, p50", f"{noise.between_processes_p50:.1%}"),
        ("noise between processes, p90", f"{noise.between_processes_p90:.1%}"),
        ("noise within a process", f"{noise.within_process:.1%}"),
        ("processes", str(noise.processes)),
        ("the test took", f"{result.took_secs:.1f} s"),
    ]


def _told(value: float | None, how: str) -> str:
    return "not measured" if value is None else how.format(value)
