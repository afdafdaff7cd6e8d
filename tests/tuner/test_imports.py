"""What comes with TVM and XGBoost into a process of the farm, and what does not."""

import subprocess
import sys
from pathlib import Path

import pytest

_LOADED = """
import sys
import {module}
brought = sorted({{"torch", "pandas", "pyarrow", "sklearn"}} & sys.modules.keys())
assert not brought, brought
import torch, pandas
assert torch.SEEN and pandas.SEEN
"""


@pytest.mark.parametrize("module", ["tuner.preload", "tuner.preload_tvm", "workers.preload"])
def test_a_fork_server_imports_nothing_that_is_merely_installed(tmp_path: Path, module: str) -> None:
    """What is wanted later is there."""
    for package in ("torch", "pandas", "pyarrow", "sklearn"):
        (tmp_path / f"{package}.py").write_text("SEEN = True\n")
    command = [sys.executable, "-c", _LOADED.format(module=module)]
    env = {"PYTHONPATH": f"{tmp_path}:{Path(__file__).parents[2]}", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
