"""Every line of every log of a whole service is JSON, from its start to its end; Valkey's own log aside."""

import json
import socket
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from tests.system.modules import body
from tests.system.service import NO_SELFTEST, run_service


def test_every_line_of_a_service_is_json(tmp_path: Path) -> None:
    with run_service(tmp_path / "data", NO_SELFTEST) as service:
        address = urlsplit(service.url)
        # uvicorn warns of it by itself.
        with socket.create_connection((address.hostname, address.port), timeout=10) as connection:
            connection.sendall(b"\x16\x03\x01 this is no HTTP\r\n\r\n")
            assert b"400" in connection.recv(1000)
        assert httpx.get(f"{service.url}/healthz").status_code == 200
        # Celery speaks when it is told to end; the worker has to be in its hands by then.
        service.wait_job(service.submit(body("mm_relu", max_trials=1))["id"])
    events: dict[str, set[str]] = {}
    for name in ("up", "api", "tuner", "worker"):
        text = (tmp_path / "data" / "logs" / f"{name}.log").read_text()
        events[name] = {json.loads(line)["event"] for line in text.splitlines()}
    assert "library_said" in events["api"]
    assert "tuner_ended" in events["tuner"]
    assert "celery_said" in events["worker"]
    assert "part_ended" in events["up"]
