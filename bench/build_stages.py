"""What a build consists of, one core, no rivals: `python -m bench.build_stages ORDER ANSWER`.

The same functions as in a worker's child, with LLVM's two parts told apart: making and optimising its IR,
and generating machine code.
"""

import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.buildable import LIMIT_SECS, unbuildable
from bench.processes import ask, order_and_answer

STAGES = ("replay", "TIR passes", "LLVM IR", "machine code", "link + load")


def mean_secs(
    module: str, traces: Sequence[Any], target: Mapping[str, Any], *, limit_secs: float = LIMIT_SECS
) -> dict[str, float]:
    """Seconds a candidate by stage: the mean over those traces that build within the limit."""
    failed = unbuildable(module, traces, target, limit_secs=limit_secs)
    built = [trace for index, trace in enumerate(traces) if index not in failed]
    answer = ask("bench.build_stages", {"module": module, "traces": built, "target": dict(target)})
    rows: list[dict[str, float]] = answer["rows"]
    return {stage: statistics.fmean(row[stage] for row in rows) for stage in STAGES} if rows else {}


def main() -> None:
    order, answer_path = order_and_answer()
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    import workers.preload  # noqa: F401 - what a worker's fork server has loaded when a child starts

    rows = []
    for number, trace in enumerate(order["traces"]):
        rows.append(_stages(order["module"], json.dumps(trace), order["target"]))
        if number == 0:
            rows.clear()  # LLVM's own start
    answer_path.write_text(json.dumps({"rows": rows}))


def _stages(module: str, trace: str, target: dict[str, Any]) -> dict[str, float]:
    from workers.program import compile_module, link, load_module, replay

    clock = time.perf_counter
    began = clock()
    scheduled = replay(load_module(module), trace)
    replayed = clock()
    llvm_secs: list[float] = []
    with _timed_llvm(llvm_secs), tempfile.TemporaryDirectory() as text:
        runtime = compile_module(scheduled, target)
        compiled = clock()
        runtime.write_to_file(str(Path(text) / "first.o"), "o")
        generated = clock()
        program = link(runtime, linker=_linker(), directory=Path(text))()
        linked = clock()
        del program
    code_secs = generated - compiled
    return {
        "replay": replayed - began,
        "TIR passes": compiled - replayed - sum(llvm_secs),
        "LLVM IR": sum(llvm_secs),
        "machine code": code_secs,
        # `link` generates the code once more.
        "link + load": max(0.0, linked - generated - code_secs),
    }


def _linker() -> str | None:
    import shutil

    return shutil.which("ld")


class _timed_llvm:  # noqa: N801 - reads as the context that it is
    """Notes how long tirx.build spends in LLVM."""

    def __init__(self, secs: list[float]) -> None:
        self._secs = secs
        self._place = sys.modules["tvm.tirx.build"]
        self._stock = self._place.codegen_build

    def __enter__(self) -> None:
        def codegen_build(*arguments: Any) -> Any:
            began = time.perf_counter()
            built = self._stock(*arguments)
            self._secs.append(time.perf_counter() - began)
            return built

        self._place.codegen_build = codegen_build  # type: ignore[attr-defined]

    def __exit__(self, *exc: object) -> None:
        self._place.codegen_build = self._stock  # type: ignore[attr-defined]


if __name__ == "__main__":
    main()
