"""The port on which a role without REST answers its operators: /metrics, /healthz and /readyz.

The tuner service and the worker start it where a setting names a port. It decides nothing: the role tells
what is measured, and what healthy means. The API has routes of its own.
"""

import threading
from collections.abc import Callable, Iterable
from socketserver import ThreadingMixIn
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app

from workers.errors import ProbesError

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

_SLOW_CLIENT_SECS = 10.0


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _Handler(WSGIRequestHandler):
    timeout = _SLOW_CLIENT_SECS

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Probes come every few seconds; they are no events."""


class Probes:
    """Serves from `with` to its end. `healthy` and `ready` give None, or what is wrong in a few words."""

    def __init__(
        self,
        *,
        host: str,
        port: int | None,
        registry: CollectorRegistry,
        healthy: Callable[[], str | None],
        ready: Callable[[], str | None],
    ) -> None:
        self._checks = {"/healthz": healthy, "/readyz": ready}
        self._metrics = make_wsgi_app(registry)
        self._server = None if port is None else self._listen(host, port)

    @property
    def port(self) -> int | None:
        """The port that it listens on; None where it was asked for none."""
        return None if self._server is None else self._server.server_port

    def __enter__(self) -> Self:
        if self._server is not None:
            threading.Thread(target=self._server.serve_forever, name="probes", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()

    def _listen(self, host: str, port: int) -> WSGIServer:
        try:
            return make_server(host, port, self._answer, server_class=_Server, handler_class=_Handler)
        except OSError as error:
            raise ProbesError(f"the probes' port {host}:{port} cannot be used ({error.strerror})") from error

    def _answer(self, environ: "WSGIEnvironment", start: "StartResponse") -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        if path == "/metrics":
            return self._metrics(environ, start)
        check = self._checks.get(path)
        if check is None:
            return _say(start, "404 Not Found", "there are /metrics, /healthz and /readyz")
        fault = check()
        return _say(start, "503 Service Unavailable" if fault else "200 OK", fault or "ok")


def _say(start: "StartResponse", status: str, text: str) -> list[bytes]:
    start(status, [("Content-Type", "text/plain; charset=utf-8")])
    return [text.encode() + b"\n"]
