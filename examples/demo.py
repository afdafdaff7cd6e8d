"""`make demo`: the whole way on this machine. A service starts, tunes mm_relu 128x128x128, a compile uses it.

It ends everything that it started and leaves nothing behind. Exit code 0 only if the tuned function was found
through stock `compile_tir` and computes what numpy computes.
"""

import argparse
import json
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tilefarm
from services.server.launch import Launched, LaunchError, launch, logs_tail
from tilefarm.progress import ProgressLine

_JOB = Path(__file__).parent / "mm_relu.job.json"
_JOB_SECS = 600.0


class DemoError(RuntimeError):
    """The demonstration cannot go on, and says why."""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="demo", description="Tunes mm_relu on this machine, end to end.")
    parser.add_argument("--max-trials", type=int, default=96)
    arguments = parser.parse_args(argv)
    for signum in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, _interrupt)
    started = time.monotonic()
    try:
        with tempfile.TemporaryDirectory(prefix="tilefarm-demo-") as home:
            _demonstrate(Path(home) / "data", max_trials=arguments.max_trials)
    except KeyboardInterrupt:
        print("\ninterrupted; everything is ended", file=sys.stderr)
        return 130
    except (DemoError, LaunchError, tilefarm.TilefarmError) as error:
        print(f"\nthe demo failed: {error}", file=sys.stderr)
        return 1
    print(f"\neverything is ended, after {time.monotonic() - started:.0f} s")
    return 0


def _demonstrate(data_dir: Path, *, max_trials: int) -> None:
    print("starting API, tuner service, worker and Valkey on this machine ...", flush=True)
    with launch(data_dir) as service:
        words = " ".join(f"{name}={value}" for name, value in service.target.items())
        print(f"{service.url} is up; target profile {service.profile!r} is {words}")
        try:
            _tune(service, max_trials=max_trials)
            modules, target = _compile(service)
        except (DemoError, tilefarm.TilefarmError) as error:
            raise DemoError(f"{error}\n{logs_tail(data_dir)}") from error
        print("ending the service, so that nothing else runs while we compare ...", flush=True)
    _print_table(_compare(modules, target))


def _tune(service: Launched, *, max_trials: int) -> None:
    body = {**json.loads(_JOB.read_text(encoding="utf-8")), "max_trials": max_trials}
    with tilefarm.Client(service.url, service.token) as client:
        job = client.submit_body(body)
        print(f"job {job.id}: {max_trials} trials for mm_relu 128x128x128", flush=True)
        line = ProgressLine(sys.stdout, label="mm_relu")
        try:
            for view in job.watch(timeout_secs=_JOB_SECS):
                line.show(view, final=job.ended)
        finally:
            line.end()
        job.require_success()


def _compile(service: Launched) -> tuple[dict[str, Any], Any]:
    """What a compiler does that knows nothing of the service: one `connect`, and stock `compile_tir`."""
    from tvm.s_tir.meta_schedule.tir_integration import compile_tir

    from examples.classroom import modules

    mod = modules()["mm_relu"]
    database = tilefarm.connect(service.url, service.token)
    target = database.target(service.profile)
    schedule = compile_tir(database, mod, target)
    if schedule is None:
        raise DemoError(f"compile_tir found no record: {database.stats()}")
    return {"untuned": mod, "tuned": schedule.mod}, target


def _compare(modules: dict[str, Any], target: Any) -> list[Any]:
    from examples.compare import WrongNumbersError, compare

    try:
        return compare(modules, target)
    except WrongNumbersError as error:
        raise DemoError(str(error)) from error


def _print_table(rows: Sequence[Any]) -> None:
    print("\nmm_relu 128x128x128, float32, all checked against numpy")
    print(f"{'':10}{'µs':>10}{'GFLOP/s':>10}{'speed-up':>10}")
    for row in rows:
        speedup = rows[0].latency_secs / row.latency_secs
        print(f"{row.name:10}{row.latency_secs * 1e6:10.1f}{row.gflops:10.1f}{speedup:9.1f}x")


def _interrupt(_signum: int, _frame: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
