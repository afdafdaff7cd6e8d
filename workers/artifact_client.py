"""Artifacts over HTTP: what this worker built goes to the API, what others built comes from it.

An API that is away is waited for as long as anybody wants the result. What arrives is checked against its
name; nothing here runs or reads it.
"""

import hashlib
import threading
import time
import zlib
from collections.abc import Callable
from typing import Any

import httpx
import structlog

from workers.api_answer import read_answer
from workers.errors import ArtifactRefused, ArtifactUnwanted, JoinRefused

_log = structlog.get_logger(__name__)
_TIMEOUT_SECS = 30.0
_RETRY_SECS = 1.0
#: What the API keeps for a while is asked for again after so long.
_FRESH_SECS = 300.0
_MOST_KNOWN = 10_000
_REFUSALS = frozenset({httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN})
_BINARY = "application/octet-stream"
_PATH = "/v1/artifacts/"


class ArtifactClient:
    """Thread-safe. `unwanted` of each call tells whether to give up waiting.

    Each raises JoinRefused where the API refuses this worker's token.
    """

    def __init__(
        self, *, url: str, token: str, max_bytes: int, transport: httpx.BaseTransport | None = None
    ) -> None:
        self._client = httpx.Client(
            base_url=url,
            headers={"Authorization": f"Bearer {token}"},
            timeout=_TIMEOUT_SECS,
            transport=transport,
        )
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        #: In time.monotonic(): when the API was last known to have it.
        self._known: dict[str, float] = {}

    def close(self) -> None:
        self._client.close()

    def send(self, data: bytes, *, unwanted: Callable[[], bool], ask: bool = False) -> str:
        """See to it that the API has `data`; its name, the SHA-256 in hex.

        `ask`: do not trust that it has what it had a while ago. The trial may be here because it had not.
        Raises ArtifactRefused where it is too large, ArtifactUnwanted where nobody waits for it any more.
        """
        sha256 = hashlib.sha256(data).hexdigest()
        with self._lock:
            known = time.monotonic() - self._known.get(sha256, -_FRESH_SECS) < _FRESH_SECS
        if ask or not known:
            asked = self._request("POST", f"{_PATH}{sha256}:touch", unwanted=unwanted)
            if asked.status_code == httpx.codes.NOT_FOUND:
                self._put(sha256, data, unwanted)
            elif not asked.is_success:
                raise ArtifactRefused(f"the API does not say whether it has {sha256}: {_said(asked)}")
            with self._lock:
                if len(self._known) >= _MOST_KNOWN:
                    self._known.clear()
                self._known[sha256] = time.monotonic()
        return sha256

    def fetch(self, sha256: str, *, unwanted: Callable[[], bool]) -> bytes | None:
        """The bytes of that name; None where the API has them no longer, or others."""
        answer = self._request("GET", f"{_PATH}{sha256}", unwanted=unwanted)
        if answer.status_code == httpx.codes.NOT_FOUND:
            return None
        if not answer.is_success:
            raise ArtifactRefused(f"the API does not give {sha256}: {_said(answer)}")
        data = _inflated(answer.content, self._max_bytes)
        if data is None or hashlib.sha256(data).hexdigest() != sha256:
            _log.error("artifact_differs", sha256=sha256, size_bytes=len(answer.content))
            return None
        return data

    def selftest_kernels(self, worker_id: str, *, unwanted: Callable[[], bool]) -> dict[str, Any] | None:
        """What a builder of this worker's target has named for self-tests; None where none has."""
        answer = self._request("GET", f"/v1/workers/{worker_id}/selftest-kernels", unwanted=unwanted)
        if answer.status_code == httpx.codes.NOT_FOUND:
            return None
        if not answer.is_success:
            raise ArtifactRefused(f"the API names no self-test kernels: {_said(answer)}")
        return read_answer(answer, dict)

    def _put(self, sha256: str, data: bytes, unwanted: Callable[[], bool]) -> None:
        body = zlib.compress(data, 6)
        answer = self._request("PUT", f"{_PATH}{sha256}", unwanted=unwanted, content=body)
        if not answer.is_success:
            raise ArtifactRefused(f"the API does not take {len(data)} bytes: {_said(answer)}")

    def _request(
        self, method: str, path: str, *, unwanted: Callable[[], bool], content: bytes | None = None
    ) -> httpx.Response:
        headers = {} if content is None else {"Content-Type": _BINARY}
        while not unwanted():
            try:
                answer = self._client.request(method, path, content=content, headers=headers)
            except httpx.RequestError as error:
                _log.warning("api_away", path=path, reason=str(error))
            else:
                if answer.status_code in _REFUSALS:
                    # Of the worker, not of the artifact: no candidate can help it.
                    raise JoinRefused(f"{method} {path}: {_said(answer)}")
                if not (answer.is_server_error or answer.status_code == httpx.codes.TOO_MANY_REQUESTS):
                    return answer
                _log.warning("api_away", path=path, reason=_said(answer))
            time.sleep(_RETRY_SECS)
        raise ArtifactUnwanted(f"{method} {path}: nobody waits for it any more")


def _inflated(data_z: bytes, max_bytes: int) -> bytes | None:
    try:
        inflater = zlib.decompressobj()
        data = inflater.decompress(data_z, max_bytes)
    except zlib.error:
        return None
    return data if inflater.eof else None


def _said(answer: httpx.Response) -> str:
    return f"{answer.status_code} {answer.text[:300]}"
