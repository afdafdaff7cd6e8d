"""`python -m bench memory`: what the worker and its fork server hold over many candidates, good and bad ones.

Random candidates of a small workload, every fifth replaced by one that ends badly, are measured again and
again, each in a fresh child, by the worker's own Measurer in this process. Flat means: from the first quarter
on memory does not grow by more than a bound, and no file descriptor and no process is there more than before.
"""

import argparse
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench import candidates, report, suite
from bench.measuring import Measuring
from sandbox.fork_server import ForkServer
from workers.messages import MeasurePolicy

_CHUNK = 25
_DRAWN = 50
#: Growth beyond this over the last three quarters is a leak.
_BOUND_BYTES = 8 << 20
#: Every so many candidates one is bad, of each kind in turn.
_BAD_EVERY = 5
#: One kind of the bad ones compiles for ever.
_POLICY = MeasurePolicy(build_timeout_secs=2.0, cut_off_ratio=50.0)
_MEMORY = ("worker", "fork_server")
_COUNTED = ("worker_files", "fork_server_files", "processes")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--candidates", type=int, default=2000)
    parser.add_argument("--workload", default="GMM-128")
    parser.add_argument("--dry", action="store_true", help="leave docs/ as it is")


def main(arguments: argparse.Namespace) -> int:
    """1 where memory grew, or a process or a file was left over."""
    known = (*suite.SMALL, *suite.names())
    if arguments.workload not in known:
        raise SystemExit(f"no workload {arguments.workload}; known are {', '.join(known)}")
    drawn = candidates.draw(arguments.workload, count=_DRAWN, seed=0)
    drawn["traces"] = _mixed(drawn["traces"], list(candidates.draw_bad(arguments.workload).values()))
    directory = Path(tempfile.mkdtemp(prefix="tilefarm-bench-"))
    children = directory / "children"
    children.mkdir()
    try:
        with ForkServer(["workers.preload"], work_dir=children) as server:
            result = _measure(drawn, server, directory, count=arguments.candidates)
            result["left_over"] = [*_processes(server), *(path.name for path in children.iterdir())]
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    text = f"{report.measured_on(drawn['target'])}.\n{table(arguments.workload, result)}"
    print(text)
    report.write_json("memory.json", {"workload": arguments.workload, **result})
    if not arguments.dry:
        report.write_section("memory", text)
    return 0 if flat(result["samples"]) and not result["left_over"] else 1


def flat(samples: Sequence[Mapping[str, int]]) -> bool:
    grown = any(growth(samples, who) > _BOUND_BYTES for who in _MEMORY)
    return not grown and all(growth(samples, what) <= 0 for what in _COUNTED)


def growth(samples: Sequence[Mapping[str, int]], who: str) -> int:
    """Of the last sample over the one at a quarter of the way: what warms up has done so by then."""
    return samples[-1][who] - samples[len(samples) // 4][who]


def table(workload: str, result: Mapping[str, Any]) -> str:
    """Markdown."""
    samples = result["samples"]
    shown = [samples[round(part * (len(samples) - 1) / 8)] for part in range(9)]
    lines = [
        f"{workload}, {samples[-1]['candidates']} candidates in {result['wall_secs']:.0f} s; outcomes: "
        + ", ".join(f"{name} {count}" for name, count in sorted(result["outcomes"].items()))
        + f". Left over: {', '.join(result['left_over']) or 'nothing'}.",
        "",
        "| candidates | worker, MiB | fork server, MiB | open files of both | children |",
        "|---|---|---|---|---|",
    ]
    for sample in shown:
        worker, fork_server = (sample[who] / 2**20 for who in _MEMORY)
        files = f"{sample['worker_files']}, {sample['fork_server_files']}"
        lines.append(
            f"| {sample['candidates']} | {worker:.1f} | {fork_server:.1f} | {files} | {sample['processes']} |"
        )
    return "\n".join(lines)


def _mixed(good: Sequence[str], bad: Sequence[str]) -> list[str]:
    """The good ones, every fifth place given to the next kind of the bad ones."""
    return [
        bad[number // _BAD_EVERY % len(bad)] if number % _BAD_EVERY == _BAD_EVERY - 1 else trace
        for number, trace in enumerate([*good] * len(bad))
    ]


def _measure(drawn: Mapping[str, Any], server: ForkServer, directory: Path, *, count: int) -> dict[str, Any]:
    measured = Measuring(server, directory, drawn["target"])
    samples, outcomes = [_sample(server, 0)], Counter[str]()
    began = time.monotonic()
    done = 0
    while done < count:
        size = min(_CHUNK, count - done)
        traces = [drawn["traces"][(done + number) % len(drawn["traces"])] for number in range(size)]
        found = measured.outcomes(drawn["module"], traces, _POLICY)
        outcomes.update(str(outcome.outcome) for outcome in found)
        done += size
        samples.append(_sample(server, done))
    return {"samples": samples, "outcomes": dict(outcomes), "wall_secs": time.monotonic() - began}


def _sample(server: ForkServer, count: int) -> dict[str, int]:
    return {
        "candidates": count,
        "worker": _resident_bytes("self"),
        "fork_server": _resident_bytes(str(server.pid)),
        "worker_files": _open_files("self"),
        "fork_server_files": _open_files(str(server.pid)),
        "processes": len(_processes(server)),
    }


def _resident_bytes(pid: str) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    kib = next(line.split()[1] for line in lines if line.startswith("VmRSS:"))
    return int(kib) << 10


def _open_files(pid: str) -> int:
    return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())


def _processes(server: ForkServer) -> list[str]:
    pids = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()
    return [f"process {pid}" for pid in pids]
