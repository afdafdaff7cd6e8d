"""What other libraries take for a workload of the benchmarks: numpy with its OpenBLAS, PyTorch with oneDNN.

Each library is timed in a process of its own, which loads no TVM, on as many cores as the target has. Nothing
is packed before on their side either, but operands lie as the library's users hold them. PyTorch is no
dependency: it is asked where TILEFARM_BENCH_TORCH names a Python that has it, or where ours does.
"""

import importlib.util
import os
import sys
from collections.abc import Mapping
from typing import Any

from bench import vendor_numpy, vendor_torch
from bench.names import kind_and_sizes
from bench.processes import ask

#: Names of the columns, and what each library can compute: workloads by their names, and kinds of them.
LIBRARIES: Mapping[str, Mapping[str, Any]] = {
    "numpy": {**vendor_numpy.PRODUCTS, **vendor_numpy.KINDS},
    "torch": {**vendor_torch.FUNCTIONS, **vendor_torch.KINDS},
}
_TORCH_PYTHON = "TILEFARM_BENCH_TORCH"


def secs(library: str, name: str, module_json: str, target: Mapping[str, Any]) -> float | None:
    """Median seconds of a call; None where the library has no such function, or is not installed.

    The module tells the inputs' shapes. Loads TVM, in this process only.
    """
    python = _python(library)
    if kind_and_sizes(name)[0] not in LIBRARIES[library] or python is None:
        return None
    cores = str(int(target["num-cores"]))
    order = {"name": name, "shapes": input_shapes(module_json), "cores": int(cores)}
    threads = {"OPENBLAS_NUM_THREADS": cores, "OMP_NUM_THREADS": cores}
    return float(ask(f"bench.vendor_{library}", order, env=threads, python=python)["secs"])


def input_shapes(module_json: str) -> list[list[int]]:
    """Of all parameters but the last, which is the output."""
    return shapes(module_json)[:-1]


def shapes(module_json: str) -> list[list[int]]:
    """Of all parameters."""
    from tuner.module import load_module

    parameters = load_module(module_json)["main"].params
    return [[int(extent) for extent in parameter.ty.shape] for parameter in parameters]


def _python(library: str) -> str | None:
    if library != "torch":
        return sys.executable
    named = os.environ.get(_TORCH_PYTHON)
    if named:
        return named
    return sys.executable if importlib.util.find_spec("torch") else None
