"""The device's self-test: real numbers of this machine, their history, and whose turn the device is."""

import hashlib
import shutil
import threading
import time
from dataclasses import asdict

import pytest

from sandbox.errors import ChildDied
from sandbox.fork_server import ForkServer
from sandbox.limits import Limits
from services.server.selftest import table
from workers.drift import LEAST_HISTORY
from workers.errors import DeviceError, KernelsMissing
from workers.selftest import DeviceTester, Noise, Roofline, SelfTest, copy_array_bytes
from workers.selftest_history import HistoryRun, append_history, read_history, well_secs
from workers.selftest_kernels import float_lanes
from workers.selftest_shipping import KernelFetcher, KernelShipper
from workers.selftester import SelfTester
from workers.turn import Turn

RUN = HistoryRun(at="2026-01-01T00:00:00+00:00", device_class="cpu 2c", kernel="k", reference_secs=1e-4)
ROOFLINE = Roofline(
    fma_gflops_one_core=100.0,
    fma_gflops_all_cores=190.0,
    copy_gb_per_sec_one_core=10.0,
    copy_gb_per_sec_all_cores=12.5,
    copy_array_bytes=64 << 20,
    last_cache_bytes=None,
)


def noise(reference_secs):
    return Noise(
        reference_secs=reference_secs,
        between_processes_p50=0.02,
        between_processes_p90=0.05,
        within_process=0.01,
        processes=4,
    )


class FakeTester:
    """A device whose reference kernel takes these seconds, one number for each run."""

    def __init__(self, *reference_secs):
        self.left = list(reference_secs)

    def run(self):
        return SelfTest(roofline=ROOFLINE, noise=noise(self.reference_secs()), took_secs=1.0)

    def reference_secs(self):
        return self.left.pop(0)


def test_a_device_measures_what_it_can_do(server, bench, detected):
    tester = DeviceTester(server=server, device=bench.device, target=detected.target, turn=Turn())
    result = tester.run()
    peak, measured = result.roofline, result.noise
    assert 2 < peak.fma_gflops_one_core < 1000
    # Scalar code would stay below eight operations a cycle: the kernel uses the target's vectors.
    assert peak.fma_gflops_one_core > 16
    assert peak.fma_gflops_all_cores > 0.7 * peak.fma_gflops_one_core
    assert 0.2 < peak.copy_gb_per_sec_one_core < 500
    assert 1e-6 < measured.reference_secs < 1e-1
    assert 0 <= measured.between_processes_p50 <= measured.between_processes_p90
    assert result.took_secs < 30
    again = tester.reference_secs()
    assert 0.1 < again / measured.reference_secs < 10
    assert list(result.as_json()) == [*asdict(peak), *asdict(measured), "took_secs"]
    assert ("peak, one core", f"{peak.fma_gflops_one_core:.0f} GFLOP/s") in table("a CPU", result)


@pytest.mark.parametrize(("mcpu", "lanes"), [("x86-64", 4), ("x86-64-v3", 8), ("x86-64-v4", 16)])
def test_the_peak_is_measured_with_registers_that_the_target_has(mcpu, lanes):
    """TVM tells 512 bits for every x86; a kernel of such vectors spills where they are narrower."""
    assert float_lanes({"kind": "llvm", "mcpu": mcpu, "num-cores": 1}) == lanes


def test_a_device_without_a_compiler_tests_itself_with_what_a_builder_made(server, bench, detected, tmp_path):
    artifacts, named = {}, []

    class Api:
        """What the builder's client sends, the device's client fetches."""

        def send(self, data, **_):
            artifacts[hashlib.sha256(data).hexdigest()] = data
            return next(reversed(artifacts))

        def fetch(self, sha256, **_):
            return artifacts.get(sha256)

        def selftest_kernels(self, worker_id, **_):
            assert worker_id == "worker-board"
            return named[-1] if named else None

    fetcher = KernelFetcher(client=Api(), worker_id=lambda: "worker-board")
    with pytest.raises(KernelsMissing, match="no build worker"):
        fetcher.get()
    shipper = KernelShipper(server=server, client=Api(), target=detected.target, linker=shutil.which("ld"))
    shipper.start()
    deadline = time.monotonic() + 30
    while not shipper.report().facts and time.monotonic() < deadline:
        time.sleep(0.05)
    shipper.stop()
    named.append(shipper.report().facts["selftest_kernels"])
    fetcher._not_before = 0.0
    env = {"TVM_USE_RUNTIME_LIB": "1"}
    with ForkServer(["workers.preload"], work_dir=tmp_path, env=env) as board:
        tester = DeviceTester(
            server=board, device=bench.device, target=detected.target, turn=Turn(), shipped=fetcher.get
        )
        result = tester.run()
    assert 16 < result.roofline.fma_gflops_one_core < 1000
    assert 0.2 < result.roofline.copy_gb_per_sec_all_cores < 500
    assert result.roofline.copy_array_bytes == 128 << 20
    assert 1e-6 < result.noise.reference_secs < 1e-1


def test_kernels_are_fetched_before_the_device_is_taken(bench):
    """An API that is away would else hold up the chunks of every worker that shares a core."""

    def shipped():
        with bench.device.exclusive(given_up=lambda: False):
            raise KernelsMissing("the API is away")

    tester = DeviceTester(
        server=bench.server, device=bench.device, target=bench.detected.target, turn=Turn(), shipped=shipped
    )

    def test():
        with pytest.raises(KernelsMissing):
            tester.run()

    testing = threading.Thread(target=test, daemon=True)
    testing.start()
    testing.join(10)
    assert not testing.is_alive()


def test_noise_is_told_between_processes_and_within_them():
    measured = Noise.of([[1.0, 1.0, 1.0], [1.1, 1.1, 1.1], [2.0, 2.0, 2.0]])
    assert measured.reference_secs == 1.0
    assert measured.between_processes_p50 == pytest.approx(2.0 / 1.1 - 1.0)
    assert 0.8 < measured.between_processes_p90 <= 1.0
    assert measured.within_process == 0.0
    assert Noise.of([[1.0, 1.2], [1.0, 1.2]]).within_process == pytest.approx(0.16 / 1.1)


def test_the_copys_arrays_leave_the_last_cache_as_far_as_memory_lets_them():
    mib, gib = 1 << 20, 1 << 30
    assert copy_array_bytes(None, 16 * gib) == 64 * mib
    assert copy_array_bytes(128 * mib, 16 * gib) == 128 * mib
    assert copy_array_bytes(512 * mib, 16 * gib) == 272 * mib
    assert copy_array_bytes(512 * mib, 2 * gib) == 128 * mib


def test_a_history_is_bounded_and_survives_a_line_that_does_not_read(tmp_path):
    path = tmp_path / "deep" / "cpu.jsonl"
    assert read_history(path) == []
    append_history(path, RUN)
    path.write_text(path.read_text() + 'half a li\n{"at": 1}\n[]\n')
    append_history(path, RUN)
    assert read_history(path) == [RUN, RUN]
    path.write_text(path.read_text() * 600)
    append_history(path, RUN)
    assert len(path.read_text().splitlines()) == 500
    assert [file.name for file in path.parent.iterdir()] == ["cpu.jsonl"]


def test_a_device_is_judged_by_its_own_well_runs_of_the_same_kernel():
    others = [
        HistoryRun(**{**asdict(RUN), **change})
        for change in ({"device_class": "gpu"}, {"kernel": "k2"}, {"well": False})
    ]
    assert well_secs([*others, RUN], device_class="cpu 2c", kernel="k") == [1e-4]


def test_a_chunk_ends_a_test_at_once(server):
    turn, died = Turn(), threading.Event()

    def test():
        limits = Limits(cpu_secs=60)
        with server.spawn("workers.selftest_child:reference", limits=limits) as child, turn.test(child):
            try:
                child.recv(30)
            except ChildDied:
                died.set()

    thread = threading.Thread(target=test)
    thread.start()
    time.sleep(0.3)
    assert turn.idle_secs > 0
    with turn.chunk():
        assert died.wait(5)
        assert turn.idle_secs == 0.0
    thread.join()


def test_a_test_that_starts_beside_a_chunk_is_ended_at_once(server):
    turn = Turn()
    with (
        turn.chunk(),
        server.spawn("workers.selftest_child:reference", limits=Limits()) as child,
        turn.test(child),
        pytest.raises(ChildDied),
    ):
        child.recv(5)


def selftester(tmp_path, tester, quarantines, *, history_secs=1e-4):
    path = tmp_path / "cpu.jsonl"
    for _ in range(LEAST_HISTORY):
        append_history(path, HistoryRun(**{**asdict(RUN), "reference_secs": history_secs}))
    return SelfTester(
        tester=tester,
        turn=Turn(),
        history=path,
        device_class="cpu 2c",
        kernel="k",
        every_secs=60.0,
        drift_limit=0.15,
        set_quarantined=quarantines.append,
    )


def test_a_device_that_drifted_goes_into_quarantine_and_comes_back(tmp_path):
    quarantines = []
    tester = FakeTester(1.3e-4, 1.2e-4, 1.25e-4, 1.2e-4, 1.2e-4, 1.2e-4, 1.01e-4)
    watched = selftester(tmp_path, tester, quarantines)
    watched._test()
    assert quarantines == [True]
    report = watched.report()
    assert report.quarantined
    assert report.facts["quarantine"].startswith("the reference kernel is 20% slower")
    assert report.facts["selftest"]["slower_than_history"] == pytest.approx(0.2)
    watched._test()
    assert quarantines == [True]
    watched._test()
    assert quarantines == [True, False]
    assert watched.report().facts["quarantine"] is None
    assert [run.well for run in read_history(watched.history)] == [True] * 5 + [False] * 2 + [True]


def test_a_test_that_fails_is_told_and_does_not_hide_what_is_known(tmp_path):
    class Failing(FakeTester):
        def run(self):
            raise DeviceError("no memory for the copy")

    watched = selftester(tmp_path, FakeTester(1e-4), [])
    watched._test()
    watched.tester, watched.turn._idle_since = Failing(), 0.0
    assert watched._test()
    facts = watched.report().facts
    assert (facts["selftest_error"], "selftest" in facts) == ("no memory for the copy", True)
    watched.tester = FakeTester(1e-4)
    watched._test()
    assert watched.report().facts["selftest_error"] is None


def test_a_disturbed_run_is_repeated_and_forgiven(tmp_path):
    quarantines = []
    tester = FakeTester(9e-4, 1e-4)
    watched = selftester(tmp_path, tester, quarantines)
    watched._test()
    assert (quarantines, tester.left, watched.quarantined) == ([], [], False)
