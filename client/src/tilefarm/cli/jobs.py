"""`tilefarm list|show|watch|cancel|pause|resume|continue|best`: jobs that run, and what came of them."""

import argparse
import sys
from collections.abc import Callable
from typing import Any

from tilefarm.cli import output
from tilefarm.cli.exits import Exit
from tilefarm.jobs import Job
from tilefarm.progress import ProgressLine, describe, failures, figures, latency_text, trials_ended


def add(commands: Any, shared: argparse.ArgumentParser) -> None:
    listing = commands.add_parser("list", parents=[shared], help="jobs, workers or targets of the service")
    listing.add_argument("what", nargs="?", choices=["jobs", "workers", "targets"], default="jobs")
    listing.add_argument("--state", help="of jobs: queued, running, paused, succeeded, failed, cancelled")
    listing.set_defaults(run=_list)
    texts: dict[str, tuple[str, Callable[[argparse.Namespace], Exit]]] = {
        "show": ("a job and its tasks", _show),
        "watch": ("follow a job until it has ended; non-zero when it failed", _watch),
        "cancel": ("stop a job; what it found stays", _cancel),
        "pause": ("stop measuring for a job until it is resumed", _pause),
        "resume": ("go on with a paused job", _resume),
        "best": ("the best schedules of a job, as Python", _best),
    }
    for verb, (text, function) in texts.items():
        command = commands.add_parser(verb, parents=[shared], help=text)
        command.add_argument("job", metavar="JOB")
        command.set_defaults(run=function)
    command = commands.add_parser(
        "continue",
        parents=[shared],
        help="tune on after a job's end",
        description="Makes a new job of the same tasks; its searches go on from all that is known of them.",
    )
    command.add_argument("job", metavar="JOB")
    command.add_argument("--max-trials", type=int, required=True, help="budget of the new job")
    command.add_argument(
        "--idempotency-key", metavar="KEY", help="a retry with the same key makes no second job"
    )
    command.add_argument(
        "--watch", action="store_true", help="stay until it has ended; the exit code tells how"
    )
    command.set_defaults(run=_continue)


def follow(job: Job, *, output_format: str) -> Exit:
    """Shows each snapshot until the job has ended."""
    if output_format == "json":
        for view in job.watch():
            output.print_json_line(view)
    else:
        line = ProgressLine(sys.stdout, label=str(job.view.get("name") or job.id))
        try:
            for view in job.watch():
                line.show(view, final=job.ended)
        finally:
            line.end()
    return Exit.OK if job.state == "succeeded" else Exit.FAILED


def made(job: Job, arguments: argparse.Namespace) -> Exit:
    """Tells of a new job, with its tasks, or follows it to its end where `--watch` says so."""
    for warning in job.warnings:
        output.say(_warning(warning))
    if arguments.watch:
        return follow(job, output_format=arguments.output)
    if arguments.output == "json":
        output.print_json(job.view)
        return Exit.OK
    print(f"job {job.id}  {job.url}")
    rows = [
        (task.get("name"), task.get("workload"), "yes" if task.get("already_tuned") else "no")
        for task in job.tasks
    ]
    output.print_table(("task", "workload", "tuned already"), rows)
    print(f"follow it: tilefarm watch {job.id}")
    return Exit.OK


def _warning(warning: dict[str, Any]) -> str:
    where = f"{warning['function']}: " if warning.get("function") else ""
    return f"warning: {where}{warning.get('detail') or warning.get('code')}"


def _list(arguments: argparse.Namespace) -> Exit:
    with arguments.connect() as client:
        if arguments.what == "jobs":
            items = list(client.jobs(state=arguments.state))
        else:
            items = client.workers() if arguments.what == "workers" else client.targets()
    if arguments.output == "json":
        output.print_json(items)
    else:
        header, row = _TABLES[arguments.what]
        output.print_table(header, [row(item) for item in items])
    return Exit.OK


def _job_row(view: dict[str, Any]) -> tuple[Any, ...]:
    return (
        view.get("id"),
        view.get("name"),
        view.get("state"),
        f"{trials_ended(view)}/{view.get('max_trials')}",
        _latency(view.get("weighted_latency_secs")),
        f"{view['speedup']:.2f}x" if view.get("speedup") else None,
        failures(view),
        (view.get("target") or {}).get("name"),
    )


def _worker_row(worker: dict[str, Any]) -> tuple[Any, ...]:
    facts = worker.get("facts") or {}
    tested = facts["selftest"] if isinstance(facts.get("selftest"), dict) else {}
    state = worker.get("state")
    if facts.get("quarantine") and state == "quarantined":
        state = f"{state}: {facts['quarantine']}"
    return (
        *(worker.get(name) for name in ("name", "health")),
        state,
        *(worker.get(name) for name in ("role", "device_class")),
        _measured(tested.get("fma_gflops_all_cores"), "{:.0f} GFLOP/s"),
        _measured(tested.get("copy_gb_per_sec_all_cores"), "{:.1f} GB/s"),
        _measured(tested.get("between_processes_p50"), "{:.1%}"),
        *(worker.get(name) for name in ("host", "tvm_version")),
    )


def _measured(value: object, form: str) -> str | None:
    """None while the worker has not tested its device."""
    return form.format(value) if isinstance(value, int | float) else None


def _target_row(target: dict[str, Any]) -> tuple[Any, ...]:
    canonical = target.get("target") or {}
    words = " ".join(f"{name}={value}" for name, value in canonical.items())
    return (target.get("name"), target.get("workers_alive"), words)


_WORKER_HEADER = (
    *("name", "health", "state", "role", "device class"),
    *("peak", "bandwidth", "noise", "host", "tvm"),
)
_TABLES: dict[str, tuple[tuple[str, ...], Callable[[dict[str, Any]], tuple[Any, ...]]]] = {
    "jobs": (("id", "name", "state", "trials", "latency", "speed-up", "failed", "target"), _job_row),
    "workers": (_WORKER_HEADER, _worker_row),
    "targets": (("name", "workers", "target"), _target_row),
}


def _show(arguments: argparse.Namespace) -> Exit:
    with arguments.connect() as client:
        job = client.job(arguments.job)
    if arguments.output == "json":
        output.print_json(job.view)
        return Exit.OK
    print(f"{job.id}  {job.view.get('name') or ''}  {describe(job.view)}")
    for warning in job.warnings:
        print(_warning(warning))
    output.print_table(
        ("task", "name", "state", "trials", "untuned", "best", "speed-up", "GFLOP/s", "failed", "note"),
        [_task_row(task) for task in job.tasks],
    )
    if job.view.get("outcomes"):
        print("outcomes: " + ", ".join(f"{name} {count}" for name, count in job.view["outcomes"].items()))
    if job.view.get("stage_secs"):
        print("seconds went into: " + _spent(job.view["stage_secs"]))
    return Exit.OK


def _spent(stage_secs: dict[str, float]) -> str:
    """Stages run side by side: their sum is more than the job took. The longest comes first."""
    longest_first = sorted(stage_secs.items(), key=lambda stage: -stage[1])
    return ", ".join(f"{name} {secs:.1f} s" for name, secs in longest_first)


def _task_row(task: dict[str, Any]) -> tuple[Any, ...]:
    return (
        task.get("id"),
        task.get("name"),
        task.get("state"),
        trials_ended(task),
        _latency(task.get("untuned_latency_secs")),
        _latency(task.get("best_latency_secs")),
        f"{task['speedup']:.2f}x" if task.get("speedup") else None,
        figures(task["gflops"]) if task.get("gflops") else None,
        failures(task),
        task.get("error") or task.get("stopped") or ("space exhausted" if task.get("exhausted") else None),
    )


def _watch(arguments: argparse.Namespace) -> Exit:
    with arguments.connect() as client:
        return follow(client.job(arguments.job), output_format=arguments.output)


def _cancel(arguments: argparse.Namespace) -> Exit:
    return _changed(arguments, Job.cancel)


def _pause(arguments: argparse.Namespace) -> Exit:
    return _changed(arguments, Job.pause)


def _resume(arguments: argparse.Namespace) -> Exit:
    return _changed(arguments, Job.resume)


def _changed(arguments: argparse.Namespace, verb: Callable[[Job], Job]) -> Exit:
    with arguments.connect() as client:
        job = verb(client.job(arguments.job))
    if arguments.output == "json":
        output.print_json(job.view)
    else:
        wanted = job.view.get("desired_state")
        print(f"{job.id} is {job.state}" + (f", to be {wanted}" if wanted not in (None, job.state) else ""))
    return Exit.OK


def _continue(arguments: argparse.Namespace) -> Exit:
    with arguments.connect() as client:
        job = client.continue_job(
            arguments.job, max_trials=arguments.max_trials, idempotency_key=arguments.idempotency_key
        )
        return made(job, arguments)


def _best(arguments: argparse.Namespace) -> Exit:
    with arguments.connect() as client:
        found = client.job(arguments.job).best()
    if arguments.output == "json":
        output.print_json(found)
    for item in found if arguments.output != "json" else []:
        task = item["task"]
        latency = _latency(task.get("best_latency_secs"))
        print(f"# {task.get('name')}  {latency}  workload {task.get('workload')}")
        print(item.get("trace_python") or "")
    return Exit.OK if found else Exit.NO_RECORD


def _latency(secs: float | None) -> str | None:
    return None if secs is None else latency_text(secs)
