"""The workloads of the benchmarks by name: the development suite, and what real models are made of beside it.

All are N = 1, float32. Those that TVM's own tests name come from its te_workload; the rest are written here.
Nothing else in the project knows these names or shapes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tuner.module import canonical_module, save_module
from tuner.tvm_light import load_tvm

Build = Callable[[], Sequence[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A module of the suite, ready to be submitted."""

    name: str
    #: Compact JSON of the canonical module (`tirx.noalias` set).
    module: str
    flops: float


def names() -> tuple[str, ...]:
    return (*DEVELOPMENT, *EXTENSION)


def workload(name: str) -> Workload:
    """Loads TVM. Raises KeyError for a name that the suite does not have."""
    return built(name, (DEVELOPMENT | EXTENSION | SMALL)[name])


def built(name: str, build: Build) -> Workload:
    """Loads TVM."""
    load_tvm()
    from tvm import te
    from tvm.s_tir.analysis import estimate_tir_flops

    mod = canonical_module(te.create_prim_func(list(build())))
    return Workload(name=name, module=save_module(mod), flops=float(estimate_tir_flops(mod)))


def _stock(name: str, index: int) -> Build:
    """One of the configurations that TVM's tests list under `name`."""

    def build() -> Sequence[Any]:
        from tvm.s_tir.meta_schedule.testing import te_workload

        function, parameters = te_workload.CONFIGS[name]
        return tuple(function(*parameters[index]))

    return build


def _conv2d(*shape: int) -> Build:
    """(H, W, CI, CO, kernel, stride, padding, dilation) in NHWC."""

    def build() -> Sequence[Any]:
        from tvm.s_tir.meta_schedule.testing import te_workload

        return tuple(te_workload.conv2d_nhwc(1, *shape))

    return build


def _dense(rows: int, columns: int, depth: int, *, gelu: bool = False) -> Build:
    """Dense + bias, and GELU by erf; the weight is layout-free, as a model's importer marks it."""

    def build() -> Sequence[Any]:
        from tvm import te, topi

        data = te.placeholder((rows, depth), name="data")
        weight = te.placeholder((columns, depth), name="weight")
        bias = te.placeholder((columns,), name="bias")
        out = topi.nn.dense(data, weight, bias)
        if gelu:
            scaled = te.compute(out.shape, lambda i, j: out[i, j] * te.const(0.5**0.5, "float32"))
            erf = topi.erf(scaled)
            inner = out
            half, one = te.const(0.5, "float32"), te.const(1.0, "float32")
            out = te.compute(inner.shape, lambda i, j: inner[i, j] * half * (one + erf[i, j]), name="gelu")
        return data, weight, bias, out

    return build


DEVELOPMENT: dict[str, Build] = {
    "GMM-512": _stock("GMM", 2),
    "GMM-1024": _stock("GMM", 3),
    "DENSE": _dense(128, 3072, 768, gelu=True),
    "TBG": _stock("TBG", 0),
    "C1D": _stock("C1D", 0),
    "C2D-a": _stock("C2D", 2),
    "C2D-b": _stock("C2D", 1),
    "CBR": _stock("CBR", 1),
    "DEP": _stock("DEP", 0),
    "GRP": _stock("GRP", 2),
    "CAP": _stock("CAP", 1),
    "SFM": _stock("SFM", 2),
}
EXTENSION: dict[str, Build] = {
    "RES-1": _conv2d(56, 56, 64, 64, 3, 1, 1),
    "RES-2": _conv2d(28, 28, 128, 256, 3, 2, 1),
    "RES-4": _conv2d(7, 7, 512, 512, 3, 1, 1),
    "PW": _conv2d(28, 28, 192, 64, 1, 1, 0),
    "DIL": _conv2d(28, 28, 64, 96, 3, 1, 2, 2),
    "DENSE-odd": _dense(101, 1000, 768),
    "GEMV": _dense(1, 3072, 3072),
    "SKINNY": _dense(16, 4096, 1024),
}
#: No part of any comparison: for what is asked of many candidates and not of large ones.
SMALL: dict[str, Build] = {"GMM-128": _stock("GMM", 0)}
