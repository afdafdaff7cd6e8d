"""The cache of stock's runs."""

from pathlib import Path

import pytest

from bench import one_run, stock
from bench.curves import Run
from bench.machine import Machine
from bench.stock import Conditions
from bench.suite import Workload
from tests.bench.runs import a_run

MACHINE = Machine(cpu="a CPU", cores=2, memory_gib=8, kernel="6.1", tvm="0.27")
CONDITIONS = Conditions(target={"kind": "llvm", "mcpu": "x86-64-v4", "num-cores": 2}, trials=64, batch=64)
GMM = Workload(name="GMM-512", module="{}", flops=1.0)


@pytest.fixture
def orders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, object]]:
    """What would have been run; each answers with the same run."""
    asked: list[dict[str, object]] = []

    def run(order: dict[str, object]) -> Run:
        asked.append(order)
        return a_run("stock")

    monkeypatch.setattr(stock, "RESULTS", tmp_path)
    monkeypatch.setattr(one_run, "run", run)
    return asked


def test_a_run_is_found_again_under_the_same_conditions_only(orders: list[dict[str, object]]):
    assert stock.cached(MACHINE, "GMM-512", CONDITIONS, 0) is None
    fresh = stock.run(MACHINE, GMM, CONDITIONS, 0)
    assert stock.cached(MACHINE, "GMM-512", CONDITIONS, 0) == fresh
    assert stock.cached(MACHINE, "GMM-512", CONDITIONS, 1) is None
    other_batch = Conditions(target=CONDITIONS.target, trials=64, batch=16)
    assert stock.cached(MACHINE, "GMM-512", other_batch, 0) is None
    other_machine = Machine(cpu="another CPU", cores=2, memory_gib=8, kernel="6.1", tvm="0.27")
    assert stock.cached(other_machine, "GMM-512", CONDITIONS, 0) is None
