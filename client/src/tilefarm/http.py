"""One HTTP session with the service: token, time-outs, and typed errors in place of status codes.

It knows no noun of the service; tilefarm.client does.
"""

import json
import os
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import httpx

from tilefarm.errors import AuthError, BadAnswerError, ConnectError, DeadlineError, ProblemError
from tilefarm.version import VERSION

#: No answer is larger; a lookup of a whole model stays far below.
MAX_ANSWER_BYTES = 256 << 20
_READ_RETRIES = 1
#: Shorter than servers keep an idle connection (uvicorn: 5 s), so that none is used while it is being closed.
_KEEPALIVE_SECS = 3.0
#: Clients of the process that forked this one; closing them here would close its connections.
_of_parents: list[httpx.Client] = []
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


class HttpSession:
    def __init__(
        self,
        url: str,
        *,
        token: str | None,
        timeout_secs: float,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self.url = url
        headers = {"User-Agent": f"tilefarm/{VERSION}", "Tilefarm-Client-Version": VERSION}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        self._make: Callable[[], httpx.Client] = lambda: httpx.Client(
            base_url=url,
            headers=headers,
            timeout=timeout_secs,
            transport=transport,
            follow_redirects=False,
            limits=httpx.Limits(max_keepalive_connections=4, keepalive_expiry=_KEEPALIVE_SECS),
            # A proxy of the environment cannot reach this machine's own loopback.
            trust_env=httpx.URL(url).host not in _LOOPBACK,
            # Plain HTTP has no certificates: to load those of all authorities takes 20 ms of a process.
            verify=not url.startswith("http://"),
        )
        self._made = self._make()
        self._pid = os.getpid()
        self._at_end = weakref.finalize(self, self._made.close)

    @property
    def _client(self) -> httpx.Client:
        """Build systems fork: connections that are open belong to the parent."""
        if self._pid != os.getpid():
            self._at_end.detach()
            _of_parents.append(self._made)
            self._made, self._pid = self._make(), os.getpid()
            self._at_end = weakref.finalize(self, self._made.close)
        return self._made

    def close(self) -> None:
        self._client.close()

    def get(self, path: str, *, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """A JSON object; a read that the connection lost is asked once more."""
        for _ in range(_READ_RETRIES):
            try:
                return self._json("GET", path, params=params)
            except ConnectError:
                continue
        return self._json("GET", path, params=params)

    def get_if_changed(self, path: str, *, params: Mapping[str, Any], etag: str) -> dict[str, Any] | None:
        """As `get`; None where the answer still has this ETag."""
        headers = {"If-None-Match": etag}
        for _ in range(_READ_RETRIES):
            try:
                return self._json("GET", path, params=params, headers=headers) or None
            except ConnectError:
                continue
        return self._json("GET", path, params=params, headers=headers) or None

    def ask(self, path: str, body: Any) -> dict[str, Any]:
        """A POST that changes nothing: asked once more where the connection was lost."""
        for _ in range(_READ_RETRIES):
            try:
                return self.post(path, body)
            except ConnectError:
                continue
        return self.post(path, body)

    def post(self, path: str, body: Any = None, *, idempotency_key: str | None = None) -> dict[str, Any]:
        headers = {"Idempotency-Key": idempotency_key} if idempotency_key else {}
        return self._json("POST", path, body=body, headers=headers)

    def patch(self, path: str, body: Any) -> dict[str, Any]:
        return self._json("PATCH", path, body=body)

    def _json(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        shown = {name: value for name, value in (params or {}).items() if value is not None}
        request = self._client.build_request(method, path, json=body, params=shown, headers=headers)
        with self._translated(), self._sent(request) as response:
            content = _read(response)
        if response.status_code == httpx.codes.NOT_MODIFIED and headers and "If-None-Match" in headers:
            return {}
        if response.is_success:
            return _parse(response, content)
        raise _problem(response, content)

    @contextmanager
    def _sent(self, request: httpx.Request) -> Iterator[httpx.Response]:
        response = self._client.send(request, stream=True)
        try:
            yield response
        finally:
            response.close()

    @contextmanager
    def lines(
        self, path: str, *, headers: Mapping[str, str], read_timeout_secs: float
    ) -> Iterator[Iterator[str]]:
        """The lines of a stream of events."""
        timeout = httpx.Timeout(self._client.timeout.connect, read=read_timeout_secs)
        request = self._client.build_request("GET", path, headers=headers, timeout=timeout)
        with self._translated(), self._sent(request) as response:
            if not response.is_success:
                raise _problem(response, _read(response))
            if not response.headers.get("content-type", "").startswith("text/event-stream"):
                raise BadAnswerError(f"GET {path} is no stream of events")
            yield response.iter_lines()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except httpx.TimeoutException as error:
            raise DeadlineError(f"{self.url} did not answer in time") from error
        except httpx.TransportError as error:
            raise ConnectError(f"cannot reach {self.url}: {error}") from error
        except (httpx.InvalidURL, httpx.DecodingError) as error:
            raise BadAnswerError(f"{self.url}: {error}") from error


def _read(response: httpx.Response) -> bytes:
    content = bytearray()
    for chunk in response.iter_bytes():
        content += chunk
        if len(content) > MAX_ANSWER_BYTES:
            raise BadAnswerError(f"{response.url.path} answers more than {MAX_ANSWER_BYTES} bytes")
    return bytes(content)


def _parse(response: httpx.Response, content: bytes) -> dict[str, Any]:
    if not content:
        return {}
    try:
        answer = json.loads(content)
    except (ValueError, RecursionError) as error:
        path = response.url.path
        raise BadAnswerError(f"{path} does not answer JSON: is this a tilefarm service?") from error
    if not isinstance(answer, dict):
        raise BadAnswerError(f"{response.url.path} answers JSON that is no object")
    return answer


def _problem(response: httpx.Response, content: bytes) -> AuthError | ProblemError | BadAnswerError:
    try:
        problem = json.loads(content)
    except (ValueError, RecursionError):
        problem = None
    if not isinstance(problem, dict):
        problem = {}
    detail = str(problem.get("detail") or problem.get("title") or response.reason_phrase)
    if response.status_code in (401, 403):
        return AuthError(f"{detail} (HTTP {response.status_code}); see TILEFARM_TOKEN")
    if not problem and not 400 <= response.status_code < 600:
        return BadAnswerError(f"{response.url.path} answers HTTP {response.status_code}")
    errors = problem.get("errors")
    return ProblemError(
        code=str(problem.get("type") or "").rpartition("/")[2] or "unknown",
        status=response.status_code,
        detail=detail,
        errors=[error for error in errors if isinstance(error, dict)] if isinstance(errors, list) else [],
    )
