"""An API that knows only workers, for the tests of one: it remembers what it was told and answers as told."""

import json
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_NOTHING = object()


@dataclass
class Fleet:
    broker_url: str
    queue: str
    joins: list[dict[str, Any]] = field(default_factory=list)
    heartbeats: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    drop: list[list[int]] = field(default_factory=list)
    drain: bool = False
    #: Heartbeats of workers that joined before are answered 404 once.
    forgets: bool = False
    #: Status of every answer, where it is not 200.
    broken: int | None = None
    #: The next heartbeat gets no answer for so long.
    swallows_secs: float = 0.0
    #: Instead of what a heartbeat, or a join, is answered.
    says: Any = _NOTHING
    joins_say: Any = None
    port: int = 0
    _server: ThreadingHTTPServer | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """On a free port, or on the one it had before."""
        fleet = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])) or b"{}")
                status, answer = fleet.answer(self.path, body, self.headers["Authorization"])
                data = json.dumps(answer).encode()
                with suppress(BrokenPipeError):  # it no longer waits
                    self.send_response(status)
                    self.send_header("Content-Type", "application/json")
                    self.send_header("Content-Length", str(len(data)))
                    self.end_headers()
                    self.wfile.write(data)

            def log_message(self, *_args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def stop(self) -> None:
        assert self._server is not None
        self._server.shutdown()
        self._server.server_close()

    def answer(self, path: str, body: dict[str, Any], authorization: str) -> tuple[int, Any]:
        if self.broken is not None:
            return self.broken, {"title": "broken on purpose"}
        assert authorization == "Bearer sesame"
        if path == "/v1/workers:join":
            self.joins.append(body)
            return 200, self.joins_say or {
                "worker_id": f"worker-{len(self.joins)}",
                "target": body["target"],
                "target_key": "k" * 64,
                "queues": [self.queue],
                "broker_url": self.broker_url,
                "heartbeat_secs": 0.1,
            }
        worker_id, _, verb = path.removeprefix("/v1/workers/").partition(":")
        if verb == "leave":
            self.left.append(worker_id)
            return 200, {}
        if self.forgets:
            self.forgets = False
            return 404, {"title": "no such worker"}
        swallowed, self.swallows_secs = self.swallows_secs, 0.0
        time.sleep(swallowed)
        self.heartbeats.append((worker_id, body))
        orders = {"drop": self.drop, "drain": self.drain, "best_latency_secs": {"1": 1e-3}}
        return 200, orders if self.says is _NOTHING else self.says
