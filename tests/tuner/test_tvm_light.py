"""What comes with TVM into a process of the farm, and what does not."""

import subprocess
import sys
from pathlib import Path

_LOADED = """
import sys
from tuner.tvm_light import load_tvm
tvm = load_tvm()
import tvm_ffi
assert "torch" not in sys.modules, "TVM brought PyTorch in"
import torch
assert torch.SEEN
"""


def test_tvm_comes_without_pytorch_and_whoever_wants_it_later_gets_it(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("SEEN = True\n")
    command = [sys.executable, "-c", _LOADED]
    path = f"{tmp_path}:{Path(__file__).parents[2]}"
    done = subprocess.run(command, env={"PYTHONPATH": path}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
