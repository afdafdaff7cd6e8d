"""The data directory of an embedded service: where what lies, and who holds it."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


class EmbeddedError(RuntimeError):
    """The embedded service cannot start: what, where, and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Home:
    """The data directory of an embedded service."""

    path: Path

    @property
    def database_url(self) -> str:
        return f"sqlite:///{self.path / 'tilefarm.db'}"

    @property
    def token_file(self) -> Path:
        return self.path / "token"

    @property
    def worker_token_file(self) -> Path:
        return self.path / "worker-token"

    @property
    def connection_file(self) -> Path:
        return self.path / "connection.json"

    @property
    def signing_key_file(self) -> Path:
        return self.path / "signing-key.pem"

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    @property
    def work(self) -> Path:
        return self.path / "work"

    @contextmanager
    def owned(self) -> Iterator[None]:
        """Hold the directory's lock: two services on it would time each other's candidates."""
        for directory in (self.path, self.logs, self.work):
            try:
                directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            except OSError as error:
                raise EmbeddedError(f"{directory} cannot be made ({error.strerror})") from error
        with (self.path / "lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise EmbeddedError(f"another tilefarm service runs on {self.path}") from None
            yield
