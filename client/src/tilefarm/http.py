"""One HTTP session with the service: token, time-outs, and typed errors in place of status codes.

It knows no noun of the service; tilefarm.client does.
"""

import json
import os
import threading
import weakref
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from tilefarm.errors import AuthError, BadAnswerError, ConnectError, DeadlineError, ProblemError
from tilefarm.version import VERSION

if TYPE_CHECKING:
    import httpx

#: No answer is larger, inflated; a lookup of a whole model stays far below.
MAX_ANSWER_BYTES = 32 << 20
#: Where the service has a child read modules: a minute until it is a request's turn, and one for the answer.
READING_SECS = 130.0
_READ_RETRIES = 1
_OK, _MULTIPLE, _NOT_MODIFIED = 200, 300, 304
#: Of lists and objects in an answer, the text of modules included: more would hold up a compile's other
#: threads while they are parsed.
_MAX_BRACKETS = 1_500_000
#: zlib's word for a stream with gzip's header.
_GZIP_BITS = 31
#: Shorter than servers keep an idle connection (uvicorn: 5 s), so that none is used while it is being closed.
_KEEPALIVE_SECS = 3.0
#: Clients of the process that forked this one; closing them here would close its connections.
_of_parents: "list[httpx.Client]" = []
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


class HttpSession:
    """Thread-safe. The first request imports httpx: a compile that asks nothing does not wait for that."""

    def __init__(
        self,
        url: str,
        *,
        token: str | None,
        timeout_secs: float,
        transport: "httpx.BaseTransport | None" = None,
    ) -> None:
        self.url = url
        self._headers = {
            "User-Agent": f"tilefarm/{VERSION}",
            "Tilefarm-Client-Version": VERSION,
            "Accept-Encoding": "gzip",
        }
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        self._timeout_secs = timeout_secs
        self._transport = transport
        self._lock = threading.Lock()
        self._made: httpx.Client | None = None
        self._pid = os.getpid()
        self._at_end: weakref.finalize[Any, Any] | None = None

    @property
    def _client(self) -> "httpx.Client":
        """Build systems fork: connections that are open belong to the parent."""
        if self._pid != os.getpid():
            self._lock, self._pid = threading.Lock(), os.getpid()
            if self._made is not None and self._at_end is not None:
                self._at_end.detach()
                _of_parents.append(self._made)
                self._made = None
        with self._lock:
            if self._made is None:
                self._made = self._make()
                self._at_end = weakref.finalize(self, self._made.close)
            return self._made

    def _make(self) -> "httpx.Client":
        import httpx

        return httpx.Client(
            base_url=self.url,
            headers=self._headers,
            timeout=self._timeout_secs,
            transport=self._transport,
            follow_redirects=False,
            limits=httpx.Limits(max_keepalive_connections=4, keepalive_expiry=_KEEPALIVE_SECS),
            # A proxy of the environment cannot reach this machine's own loopback.
            trust_env=urlsplit(self.url).hostname not in _LOOPBACK,
            # Plain HTTP has no certificates: to load those of all authorities takes 20 ms of a process.
            verify=not self.url.startswith("http://"),
        )

    def ready(self) -> None:
        """What takes a process time and is no waiting for the service: libraries, and certificates."""
        with self._translated():
            _ = self._client

    def close(self) -> None:
        if self._made is not None and self._pid == os.getpid():
            self._made.close()

    def get(
        self, path: str, *, params: Mapping[str, Any] | None = None, wait_secs: float = 0.0
    ) -> dict[str, Any]:
        """A JSON object; a read that the connection lost is asked once more."""
        for _ in range(_READ_RETRIES):
            try:
                return self._json("GET", path, params=params, wait_secs=wait_secs)
            except ConnectError:
                continue
        return self._json("GET", path, params=params, wait_secs=wait_secs)

    def get_if_changed(self, path: str, *, params: Mapping[str, Any], etag: str) -> dict[str, Any] | None:
        """As `get`; None where the answer still has this ETag."""
        headers = {"If-None-Match": etag}
        for _ in range(_READ_RETRIES):
            try:
                return self._answer("GET", path, params=params, headers=headers)
            except ConnectError:
                continue
        return self._answer("GET", path, params=params, headers=headers)

    def ask(
        self, path: str, body: Any, *, idempotency_key: str | None = None, wait_secs: float = 0.0
    ) -> dict[str, Any]:
        """A POST that may come twice: asked once more where the connection was lost."""
        for _ in range(_READ_RETRIES):
            try:
                return self.post(path, body, idempotency_key=idempotency_key, wait_secs=wait_secs)
            except ConnectError:
                continue
        return self.post(path, body, idempotency_key=idempotency_key, wait_secs=wait_secs)

    def post(
        self, path: str, body: Any = None, *, idempotency_key: str | None = None, wait_secs: float = 0.0
    ) -> dict[str, Any]:
        """`wait_secs`: how long its work may take, where that is longer than the time-out."""
        headers = {"Idempotency-Key": idempotency_key} if idempotency_key else {}
        return self._json("POST", path, body=body, headers=headers, wait_secs=wait_secs)

    def patch(self, path: str, body: Any) -> dict[str, Any]:
        return self._json("PATCH", path, body=body)

    def _json(self, method: str, path: str, **asked: Any) -> dict[str, Any]:
        found = self._answer(method, path, **asked)
        return {} if found is None else found

    def _answer(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        wait_secs: float = 0.0,
    ) -> dict[str, Any] | None:
        """None where nothing has changed, for who asked so."""
        shown = {name: value for name, value in (params or {}).items() if value is not None}
        with self._translated():
            request = self._client.build_request(
                method, path, json=body, params=shown, headers=headers, timeout=self._timeout(wait_secs)
            )
            with self._sent(request) as response:
                content = _read(response)
        if response.status_code == _NOT_MODIFIED and headers and "If-None-Match" in headers:
            return None
        if _OK <= response.status_code < _MULTIPLE:
            return _parse(response, content)
        raise _problem(response, content)

    def _timeout(self, wait_secs: float) -> "httpx.Timeout":
        import httpx

        return httpx.Timeout(self._timeout_secs, read=max(self._timeout_secs, wait_secs))

    @contextmanager
    def _sent(self, request: "httpx.Request") -> "Iterator[httpx.Response]":
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
        import httpx

        with self._translated():
            timeout = httpx.Timeout(self._client.timeout.connect, read=read_timeout_secs)
            plain = {**headers, "Accept-Encoding": "identity"}
            request = self._client.build_request("GET", path, headers=plain, timeout=timeout)
            with self._sent(request) as response:
                if not response.is_success:
                    raise _problem(response, _read(response))
                if not response.headers.get("content-type", "").startswith("text/event-stream"):
                    raise BadAnswerError(f"GET {path} is no stream of events")
                _refuse_encoding(response, {"identity"})
                yield response.iter_lines()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        import httpx

        try:
            yield
        except httpx.TimeoutException as error:
            raise DeadlineError(f"{self.url} did not answer in time") from error
        except httpx.TransportError as error:
            raise ConnectError(f"cannot reach {self.url}: {error}") from error
        except (httpx.InvalidURL, httpx.DecodingError) as error:
            raise BadAnswerError(f"{self.url}: {error}") from error


def _read(response: "httpx.Response") -> bytes:
    """The body, inflated here: a kilobyte may unfold to a megabyte, and what is inflated twice to more."""
    if response.is_stream_consumed:  # by a transport that answers out of memory
        return _bounded(response, [response.content])
    if _refuse_encoding(response, {"identity", "gzip"}) == "identity":
        return _bounded(response, response.iter_raw())
    inflater = zlib.decompressobj(_GZIP_BITS)
    content = bytearray()
    try:
        for chunk in response.iter_raw():
            content += inflater.decompress(chunk, MAX_ANSWER_BYTES + 1 - len(content))
            _refuse_length(response, len(content))
    except zlib.error as error:
        raise BadAnswerError(f"{response.url.path} answers what is not gzip: {error}") from error
    if not inflater.eof:
        raise BadAnswerError(f"{response.url.path} answers less than a whole body")
    return bytes(content)


def _refuse_encoding(response: "httpx.Response", known: set[str]) -> str:
    """The body's encoding; BadAnswerError where it is none that was asked for, or several."""
    encoding = response.headers.get("content-encoding", "").strip().lower() or "identity"
    if encoding not in known:
        raise BadAnswerError(f"{response.url.path} answers in the encoding {encoding!r:.60}")
    return str(encoding)


def _bounded(response: "httpx.Response", chunks: Iterable[bytes]) -> bytes:
    content = bytearray()
    for chunk in chunks:
        content += chunk
        _refuse_length(response, len(content))
    return bytes(content)


def _refuse_length(response: "httpx.Response", size_bytes: int) -> None:
    if size_bytes > MAX_ANSWER_BYTES:
        raise BadAnswerError(f"{response.url.path} answers more than {MAX_ANSWER_BYTES} bytes")


def _parse(response: "httpx.Response", content: bytes) -> dict[str, Any]:
    if not content:
        return {}
    if content.count(b"[") + content.count(b"{") > _MAX_BRACKETS:
        raise BadAnswerError(f"{response.url.path} answers more than any service says")
    try:
        answer = json.loads(content)
    except (ValueError, RecursionError) as error:
        path = response.url.path
        raise BadAnswerError(f"{path} does not answer JSON: is this a tilefarm service?") from error
    if not isinstance(answer, dict):
        raise BadAnswerError(f"{response.url.path} answers JSON that is no object")
    return answer


def _problem(response: "httpx.Response", content: bytes) -> AuthError | ProblemError | BadAnswerError:
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
