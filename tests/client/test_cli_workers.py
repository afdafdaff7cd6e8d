"""`tilefarm list workers`: what a device can do and how noisy it is, as far as it has tested itself."""

import json

import httpx

from tests.client.conftest import FakeService
from tests.client.test_cli import run
from tests.client.test_jobs import answers

WORKER = {
    "name": "board/cpu-0-1",
    "health": "alive",
    "state": "quarantined",
    "role": "both",
    "device_class": "CPU 2c",
    "host": "board",
    "tvm_version": "0.27",
    "facts": {
        "quarantine": "the reference kernel is 30% slower",
        "selftest": {
            "fma_gflops_all_cores": 412.6,
            "copy_gb_per_sec_all_cores": 23.14,
            "between_processes_p50": 0.084,
        },
    },
}
COLUMNS = ("PEAK", "BANDWIDTH", "NOISE")


def serve(service: FakeService) -> None:
    new = {**WORKER, "name": "new/cpu-0", "state": "running", "facts": {}}
    service.routes["GET /v1/workers"] = answers(httpx.Response(200, json={"workers": [WORKER, new]}))


def test_workers_are_listed_with_peak_bandwidth_and_noise(service, capsys):
    serve(service)
    assert run(service, "list", "workers") == 0
    header, tested, new = capsys.readouterr().out.splitlines()
    assert tuple(word for word in header.split() if word in COLUMNS) == COLUMNS
    for text in ("413 GFLOP/s", "23.1 GB/s", "8.4%", "quarantined: the reference kernel is 30% slower"):
        assert text in tested
    assert "GFLOP/s" not in new


def test_json_keeps_every_fact(service, capsys):
    serve(service)
    assert run(service, "list", "workers", "-o", "json") == 0
    assert json.loads(capsys.readouterr().out)[0]["facts"] == WORKER["facts"]
