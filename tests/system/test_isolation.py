"""A workload whose search kills its child again and again fails alone, with its reason; others go on."""

import contextlib
import json
import os
import signal
import time
from typing import Any

from tests.system.modules import body
from tests.system.service import Service, accounted


def _kill_search_children(service: Service, search_id: int, killed: set[int]) -> None:
    for line in service.log("tuner").splitlines():
        with contextlib.suppress(ValueError, ProcessLookupError):
            event: dict[str, Any] = json.loads(line)
            child = event.get("event") == "search_child_started" and event["search_id"] == search_id
            if child and event["pid"] not in killed:
                killed.add(event["pid"])
                os.kill(event["pid"], signal.SIGKILL)


def test_a_search_that_kills_its_children_takes_nothing_else_down(service: Service) -> None:
    poison = service.submit(body("bmm_relu", max_trials=64))
    healthy = service.submit(body("mm_relu", max_trials=8))
    killed: set[int] = set()
    deadline = time.monotonic() + 60
    while service.job(poison["id"])["state"] not in ("failed", "succeeded"):
        assert time.monotonic() < deadline, service.job(poison["id"])
        _kill_search_children(service, poison["tasks"][0]["search_id"], killed)
        time.sleep(0.02)
    failed = service.job(poison["id"])
    assert failed["state"] == "failed"
    assert "SIGKILL" in failed["tasks"][0]["error"]
    assert len(killed) >= 3
    assert accounted(failed)
    assert service.wait_job(healthy["id"])["state"] == "succeeded"
    # A new job on the same workload is a new try.
    again = service.wait_job(service.submit(body("bmm_relu", max_trials=8))["id"])
    assert again["state"] == "succeeded", again
