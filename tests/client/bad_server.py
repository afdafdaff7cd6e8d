"""A TCP server that behaves as no service should: real sockets, real bytes, real silence."""

import contextlib
import json
import socket
import struct
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

#: What to do with a connection whose request was read; the event is set when the test is over.
Behaviour = Callable[[socket.socket, Any, threading.Event], None]
_REQUEST_BYTES = 1 << 20


class BadServer:
    """A context manager; `url` is its address, `requests` counts what it was asked."""

    def __init__(self, behaviour: Behaviour) -> None:
        self._behaviour = behaviour
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self.requests = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(5)

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            head, _, body = connection.recv(_REQUEST_BYTES).partition(b"\r\n\r\n")
            lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
            while lengths and len(body) < int(lengths[0].split(b":")[1]):
                body += connection.recv(_REQUEST_BYTES)
            self.requests += 1
            self._behaviour(connection, json.loads(body or b"null"), self._over)


def says(
    content: bytes | Any, *, status: int = 200, media_type: str = "application/json", encoding: str = ""
) -> bytes:
    """A whole answer; what is no bytes travels as JSON. Who names an encoding has encoded the content."""
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    head = f"HTTP/1.1 {status} X\r\nContent-Type: {media_type}\r\nContent-Length: {len(body)}\r\n"
    return f"{head}{f'Content-Encoding: {encoding}' if encoding else 'X-Plain: 1'}\r\n\r\n".encode() + body


def answering(make: Callable[[Any], bytes]) -> Behaviour:
    """Answers a request's parsed body at once."""
    return lambda connection, asked, _over: connection.sendall(make(asked))


def hung(_connection: socket.socket, _asked: Any, over: threading.Event) -> None:
    over.wait(30)


def killed(connection: socket.socket, _asked: Any, _over: threading.Event) -> None:
    """The kernel resets the connections of a process that is killed; this one was half-way."""
    connection.sendall(says({"records": {}})[:60])
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def one_byte_a_second(connection: socket.socket, _asked: Any, over: threading.Event) -> None:
    for byte in says({"records": {}}):
        connection.sendall(bytes([byte]))
        if over.wait(1.0):
            return


def hung_in_the_middle(connection: socket.socket, _asked: Any, over: threading.Event) -> None:
    connection.sendall(says({"records": {}})[:-5])
    over.wait(30)


def endless(connection: socket.socket, _asked: Any, over: threading.Event) -> None:
    """As fast as it is read."""
    connection.sendall(b"HTTP/1.1 200 X\r\nContent-Type: application/json\r\n\r\n[")
    while not over.is_set():
        connection.sendall(b"1," * 50_000)
