"""The process in which stock `ms.tune_tir` runs: `python -m bench.stock_run ORDER ANSWER`.

It imports TVM as every user of stock does, the slow way; nothing of tilefarm's light loader is used. Its
answer is a list of trials with the time at which the tuner knew them, and the trace of its best record.
"""

import json
import logging
import tempfile
import time
from typing import Any

from bench.processes import order_and_answer

#: Stock's builder starts children that import for ten seconds on this kind of machine: 30 s are too few.
_BUILD_TIMEOUT_SECS = 120.0


def main() -> None:
    order, answer_path = order_and_answer()
    logging.disable(logging.WARNING)
    trials, final = _tune(order)
    # Children build and time; what this process does, but for its imports, is search.
    answer = {"trials": trials, "final": final, "ended": time.time(), "search_secs": time.process_time()}
    answer_path.write_text(json.dumps(answer))


def _tune(order: dict[str, Any]) -> tuple[list[dict[str, Any]], Any]:
    import tvm
    from tvm.s_tir import meta_schedule as ms
    from tvm.s_tir.meta_schedule.builder import LocalBuilder
    from tvm.s_tir.meta_schedule.runner import LocalRunner

    num_cores = int(order["target"]["num-cores"])
    mod = tvm.ir.load_json(order["module"])
    target = tvm.target.Target(order["target"])
    trials: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="stock-") as work_dir:
        database = ms.tune_tir(
            mod=mod,
            target=target,
            work_dir=work_dir,
            max_trials_global=int(order["trials"]),
            num_trials_per_iter=int(order["batch"]),
            builder=LocalBuilder(timeout_sec=_BUILD_TIMEOUT_SECS, max_workers=num_cores),
            runner=LocalRunner(),
            measure_callbacks=[*ms.MeasureCallback.create("default"), _recorder(trials)],
            num_tuning_cores=num_cores,
            seed=int(order["seed"]),
        )
        record = database.query_tuning_record(mod, target, "main")
        return trials, None if record is None else _plain(record.trace.as_json())


def _recorder(trials: list[dict[str, Any]]) -> Any:
    """A callback that notes each result of a batch, with the time at which the batch was known."""
    from tvm.ir.utils import derived_object
    from tvm.s_tir.meta_schedule.measure_callback import PyMeasureCallback

    @derived_object
    class Recorder(PyMeasureCallback):
        def apply(
            self,
            task_scheduler: Any,
            task_id: int,
            measure_candidates: Any,
            builder_results: Any,
            runner_results: Any,
        ) -> None:
            del task_scheduler, task_id
            now = time.time()
            rows = zip(measure_candidates, builder_results, runner_results, strict=True)
            for candidate, built, ran in rows:
                run_secs = [float(secs) for secs in ran.run_secs] if ran.run_secs is not None else []
                error = built.error_msg or ran.error_msg
                trials.append(
                    {
                        "at": now,
                        "latency_secs": None if error or not run_secs else sum(run_secs) / len(run_secs),
                        "outcome": _outcome(built.error_msg, ran.error_msg),
                        "trace": _plain(candidate.sch.trace.as_json()),
                    }
                )

    return Recorder()


def _outcome(build_error: Any, run_error: Any) -> str:
    if build_error:
        return "build_error"
    return "run_error" if run_error else "ok"


def _plain(obj: Any) -> Any:
    """TVM's JSON objects hold IntImm, FloatImm and its own lists."""
    from tuner.plain_json import plain

    return plain(obj)


if __name__ == "__main__":
    main()
