"""A real worker on a device that was faster once, or so its history says: it steps aside, and comes back."""

import json
from dataclasses import asdict
from pathlib import Path

from db.states import Outcome
from tests.servers import short_dir
from tests.waiting import wait_until
from tests.workers.conftest import Bench
from tests.workers.test_worker import Farm
from workers.drift import LEAST_HISTORY
from workers.selftest import REFERENCE_KERNEL
from workers.selftest_history import HistoryRun


def write_history(home: Path, bench: Bench, *, reference_secs: float) -> None:
    run = HistoryRun(
        at="2026-01-01T00:00:00+00:00",
        device_class=bench.device.device_class,
        kernel=f"{REFERENCE_KERNEL} tvm {bench.detected.tvm_version}",
        reference_secs=reference_secs,
    )
    path = home / "work" / "selftest" / f"{bench.device.name}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text((json.dumps(asdict(run)) + "\n") * LEAST_HISTORY)


def told(farm: Farm) -> list[dict]:
    """Heartbeats with a self-test's facts; sensors tell theirs before the first one."""
    return [body for _, body in farm.fleet.heartbeats if "selftest" in body.get("facts", {})]


def test_a_device_slower_than_its_history_takes_nothing_until_it_is_well(bench, authored):
    with short_dir() as home:
        write_history(home, bench, reference_secs=1e-9)
        farm = Farm(home, TILEFARM_WORKER_SELFTEST_SECS="0.5")
        try:
            wait_until(lambda: told(farm), timeout_secs=40)
            facts = told(farm)[0]["facts"]
            assert facts["quarantine"].startswith("the reference kernel is ")
            assert facts["selftest"]["fma_gflops_all_cores"] > 1
            wait_until(lambda: farm.fleet.heartbeats[-1][1]["quarantined"])
            assert "device_quarantined" in farm.log.read_text()
            farm.send(bench.chunk(authored["scale"], "junk"))
            beats = len(farm.fleet.heartbeats)
            wait_until(lambda: len(farm.fleet.heartbeats) > beats + 10)
            assert all(body["holding"] == [] for _, body in farm.fleet.heartbeats)
            write_history(home, bench, reference_secs=10.0)
            (outcome,) = farm.await_outcomes(1, timeout_secs=30)
            assert outcome.outcome == Outcome.REJECTED
            assert farm.fleet.heartbeats[-1][1]["quarantined"] is False
            assert told(farm)[-1]["facts"]["quarantine"] is None
            # What did not change is not told again.
            assert len(told(farm)) < len(farm.fleet.heartbeats) / 3
        finally:
            farm.close()
