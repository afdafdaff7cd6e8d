"""What README shows works as pasted, against a running service: curl, Python, the CLI, the examples."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.system.service import Service, accounted

_ROOT = Path(__file__).resolve().parents[2]
_TILEFARM = [sys.executable, "-m", "tilefarm"]


def _run(service: Service, *words: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "TILEFARM_DATA_DIR": str(service.data_dir)}
    for name in ("TILEFARM_URL", "TILEFARM_TOKEN"):
        env.pop(name, None)
    return subprocess.run(
        words, env=env, cwd=_ROOT, input=stdin, capture_output=True, text=True, timeout=180, check=False
    )


def _cli(service: Service, *words: str) -> str:
    done = _run(service, *_TILEFARM, *words)
    assert done.returncode == 0, (words, done.stdout, done.stderr)
    return done.stdout


def test_the_curl_of_the_readme_submits_as_pasted(service: Service) -> None:
    if shutil.which("curl") is None:
        pytest.skip("curl is not on this machine")
    [block] = re.findall(r"```\n(curl .*?)```", (_ROOT / "README.md").read_text(), flags=re.DOTALL)
    pasted = block.replace("http://127.0.0.1:8765", service.url)
    pasted = pasted.replace("~/.local/share/tilefarm/token", str(service.data_dir / "token"))
    first, again = (json.loads(_run(service, "bash", "-c", pasted).stdout) for _ in range(2))
    assert first["id"] == again["id"], "the idempotency key makes it one job"
    service.wait_for(first["id"], lambda job: job["outcomes"].get("ok", 0) > 0)
    assert service.post(f"/v1/jobs/{first['id']}:cancel").is_success


@pytest.mark.parametrize(
    ("example", "says"),
    [
        ("submit_python 16", "def main"),
        ("custom_space", "sch.sample_perfect_tile"),
        ("lookup", "hit"),
        ("mixture", "tuned: agrees with numpy"),
    ],
)
def test_an_example_runs(service: Service, tuned_mm_relu: dict[str, Any], example: str, says: str) -> None:
    assert tuned_mm_relu["state"] == "succeeded"
    done = _run(service, sys.executable, "-m", *f"examples.{example}".split())
    assert done.returncode == 0, done.stderr
    assert says in done.stdout


def test_a_job_from_a_python_file_through_all_the_cli(service: Service) -> None:
    submitted = json.loads(
        _cli(
            service, "submit", "examples/classroom.py", "--function", "MM",
            "--target", "local", "--max-trials", "20", "--seed", "77", "-o", "json",
        )
    )  # fmt: skip
    job_id = submitted["id"]
    assert "succeeded" in _cli(service, "watch", job_id)
    shown = json.loads(_cli(service, "show", job_id, "-o", "json"))
    assert accounted(shown)
    assert shown["trials"]["done"] == 20
    assert "build" in _cli(service, "show", job_id), "show tells where the seconds went"
    assert job_id in _cli(service, "list", "jobs")
    assert "local" in _cli(service, "list", "targets")
    assert "alive" in _cli(service, "list", "workers")
    assert "sch.get_sblock" in _cli(service, "best", job_id)
    _cli(service, "lookup", "examples/classroom.py", "--function", "MM", "--target", "local")
    assert "ok" in _cli(service, "doctor")


def test_a_cancelled_job_makes_watch_end_with_an_error(service: Service) -> None:
    job_id = json.loads(
        _cli(
            service,
            "submit",
            "examples/mm_relu.job.json",
            "--max-trials",
            "500",
            "--seed",
            "78",
            "-o",
            "json",
        )
    )["id"]
    _cli(service, "cancel", job_id)
    assert _run(service, *_TILEFARM, "watch", job_id).returncode == 1
    assert service.wait_job(job_id, timeout_secs=10)["state"] == "cancelled"


def test_tune_tir_returns_a_database_that_compile_tir_uses(service: Service, tmp_path: Path) -> None:
    import tvm
    from tvm.s_tir.meta_schedule.tir_integration import compile_tir

    import tilefarm
    from examples.classroom import modules

    target = tvm.target.Target(service.target)
    database = tilefarm.tune_tir(
        modules()["linear0"], target, str(tmp_path), 16, url=service.url, token=service.token
    )
    schedule = compile_tir(database, modules()["linear0"]["linear0"], target)
    assert schedule is not None
    tvm.compile(schedule.mod, target)
    assert list(tmp_path.iterdir()), "work_dir holds a log, as with stock tune_tir"
