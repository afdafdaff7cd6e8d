"""Stands between some roles and a server: cuts them off, or sends each message for Valkey three times.

For that it reads the clients' side of the Redis protocol, only as far as it must: a message is an LPUSH.
"""

import contextlib
import json
import random
import socket
import threading
import time
import uuid
from pathlib import Path

import redis

_CHUNK_BYTES = 1 << 16
#: Copies arrive within so many seconds.
_SPREAD_SECS = 1.5
_OWN_QUEUES = b"tilefarm."


class Proxy:
    """A TCP port on 127.0.0.1 that leads to a Unix socket, or to another port."""

    def __init__(self, upstream: Path | int, *, tripled: bool = False, seed: int = 0) -> None:
        self._upstream = upstream
        self._tripled = tripled
        self._random = random.Random(seed)
        self._open: set[socket.socket] = set()
        self._forgotten: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._through = threading.Event()
        self._through.set()
        self._refuses = False
        #: Messages that were sent three times.
        self.messages = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self, *, silently: bool) -> None:
        """Silently: what is sent stays away and nobody is told. Else connections break and are refused."""
        self._refuses = not silently
        self._through.clear()
        if not silently:
            self._break_all()

    def forget(self) -> int:
        """As a firewall that lost its state: what is connected stays open and silent for ever.

        Who connects anew is served. How many connections that were.
        """
        with self._lock:
            self._forgotten |= self._open
            return len(self._open) // 2

    def mend(self) -> None:
        self._refuses = False
        self._through.set()

    def close(self) -> None:
        self._listener.close()
        self.mend()
        self._break_all()

    def _break_all(self) -> None:
        with self._lock:
            broken, self._open = self._open, set()
        for side in broken:
            with contextlib.suppress(OSError):
                side.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = self._connect()
            except OSError:
                client.close()
                continue
            if self._refuses:
                client.close()
                server.close()
                continue
            with self._lock:
                self._open |= {client, server}
            pump = self._triple if self._tripled else self._pump
            threading.Thread(target=pump, args=(client, server), daemon=True).start()
            threading.Thread(target=self._pump, args=(server, client), daemon=True).start()

    def _connect(self) -> socket.socket:
        if isinstance(self._upstream, int):
            return socket.create_connection(("127.0.0.1", self._upstream))
        server = socket.socket(socket.AF_UNIX)
        try:
            server.connect(str(self._upstream))
        except OSError:
            server.close()
            raise
        return server

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(_CHUNK_BYTES):
                self._through.wait()
                if source not in self._forgotten:
                    sink.sendall(data)
        self._end(source, sink)

    def _triple(self, client: socket.socket, server: socket.socket) -> None:
        """Commands one by one; those that bring a message are answered here and arrive later, three times."""
        with contextlib.suppress(OSError, ValueError), client.makefile("rb") as stream:
            while header := stream.readline():
                parts, raw = [], [header]
                for _ in range(int(header[1:])):
                    length = stream.readline()
                    text = stream.read(int(length[1:]) + 2)
                    raw += [length, text]
                    parts.append(text[:-2])
                if parts[0].upper() == b"LPUSH" and parts[1].startswith(_OWN_QUEUES):
                    self._scatter(parts[1], parts[2])
                    client.sendall(b":1\r\n")
                else:
                    server.sendall(b"".join(raw))
        self._end(client, server)

    def _scatter(self, queue: bytes, message: bytes) -> None:
        self.messages += 1
        for _ in range(3):
            copy = json.loads(message)
            copy["properties"]["delivery_tag"] = str(uuid.uuid4())
            delay_secs = self._random.uniform(0.0, _SPREAD_SECS)
            first = self._random.random() < 0.5
            arguments = (queue, json.dumps(copy).encode(), delay_secs, first)
            threading.Thread(target=self._push, args=arguments, daemon=True).start()

    def _push(self, queue: bytes, message: bytes, delay_secs: float, first: bool) -> None:  # noqa: FBT001
        time.sleep(delay_secs)
        client = redis.Redis(unix_socket_path=str(self._upstream))
        with contextlib.suppress(redis.ConnectionError):
            (client.rpush if first else client.lpush)(queue, message)
        client.close()

    def _end(self, *sides: socket.socket) -> None:
        for side in sides:
            with contextlib.suppress(OSError):
                side.shutdown(socket.SHUT_RDWR)
        with self._lock:
            self._open -= set(sides)
