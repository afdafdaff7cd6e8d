"""What goes wrong, as problem+json (RFC 9457): a stable `type`, a status, entries that name what and where.

ApiError
├── BadRequestError       400  the body does not read
├── UnauthenticatedError  401  no token, or one that is not valid
├── ForbiddenError        403  the token lacks a scope, or the object is another's
├── NotFoundError         404
├── TooSlowError          408  the body did not come in time
├── ConflictError         409  the object's state does not allow it
├── TooLargeError         413
├── UnsupportedError      415
├── InvalidError          422  the request reads, and is refused
└── UnavailableError      503  the farm cannot answer now; try again
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Self

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, BeforeValidator, ConfigDict
from starlette.exceptions import HTTPException

_log = structlog.get_logger(__name__)
TYPE_PREFIX = "https://tilefarm.dev/problems/"
MEDIA_TYPE = "application/problem+json"
_MAX_ENTRIES = 50
#: Of pydantic, for `str | dict`.
_TRIED_TYPES = ("constrained-str", "dict[")


def _written(text: Any) -> Any:
    """What a sender chose may hold half a surrogate pair, which no answer can carry."""
    return text.encode(errors="backslashreplace").decode() if isinstance(text, str) else text


_Text = Annotated[str, BeforeValidator(_written)]


class ErrorEntry(BaseModel):
    """One fault: a stable code, the function or field at fault, what is wrong."""

    model_config = ConfigDict(frozen=True)
    code: str
    function: _Text | None = None
    detail: _Text


class Problem(BaseModel):
    """An error, as RFC 9457 words it."""

    model_config = ConfigDict(frozen=True)
    type: str
    title: str
    status: int
    detail: _Text
    errors: list[ErrorEntry] = []


class ApiError(Exception):
    """Root of what handlers raise; becomes problem+json."""

    status: ClassVar[int] = 500
    title: ClassVar[str] = "Internal error"

    def __init__(
        self,
        code: str,
        detail: str,
        *,
        errors: Sequence[ErrorEntry] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail
        self.errors = list(errors)
        self.headers = dict(headers or {})


class BadRequestError(ApiError):
    status, title = 400, "Bad request"


class UnauthenticatedError(ApiError):
    status, title = 401, "Not authenticated"

    def __init__(self, detail: str) -> None:
        super().__init__("unauthenticated", detail, headers={"WWW-Authenticate": "Bearer"})


class ForbiddenError(ApiError):
    status, title = 403, "Forbidden"


class NotFoundError(ApiError):
    status, title = 404, "Not found"


class TooSlowError(ApiError):
    status, title = 408, "Request timeout"


class ConflictError(ApiError):
    status, title = 409, "Conflict"


class TooLargeError(ApiError):
    status, title = 413, "Too large"


class UnsupportedError(ApiError):
    status, title = 415, "Unsupported media type"


class InvalidError(ApiError):
    status, title = 422, "Refused"

    @classmethod
    def of(cls, code: str, detail: str, *, function: str | None = None) -> Self:
        """One fault, which is its own only entry."""
        return cls(code, detail, errors=[ErrorEntry(code=code, function=function, detail=detail)])


class UnavailableError(ApiError):
    status, title = 503, "Unavailable"

    def __init__(self, code: str, detail: str, *, retry_secs: int = 5) -> None:
        super().__init__(code, detail, headers={"Retry-After": str(retry_secs)})


_CONTENT = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
#: Declared for every route in the OpenAPI document.
RESPONSES: dict[int | str, dict[str, Any]] = {
    cls.status: {"description": cls.title, "content": _CONTENT}
    for cls in (
        *(BadRequestError, UnauthenticatedError, ForbiddenError, NotFoundError, TooSlowError, ConflictError),
        *(TooLargeError, UnsupportedError, InvalidError, ApiError, UnavailableError),
    )
}


def problem_response(error: ApiError) -> JSONResponse:
    problem = Problem(
        type=TYPE_PREFIX + error.code,
        title=error.title,
        status=error.status,
        detail=error.detail,
        errors=error.errors[:_MAX_ENTRIES],
    )
    return JSONResponse(
        problem.model_dump(), status_code=error.status, media_type=MEDIA_TYPE, headers=error.headers
    )


def install(app: FastAPI) -> None:
    """Every error of the app, FastAPI's and Starlette's own too, becomes problem+json."""
    app.add_exception_handler(ApiError, _on_api_error)
    app.add_exception_handler(RequestValidationError, _on_validation)
    app.add_exception_handler(HTTPException, _on_http)
    app.add_exception_handler(Exception, _on_bug)
    _declare(app)


def _declare(app: FastAPI) -> None:
    """Add Problem to the schemas of the OpenAPI document: the responses refer to it."""
    generate = app.openapi

    def openapi() -> dict[str, Any]:
        document = generate()
        schema = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
        components = document.setdefault("components", {}).setdefault("schemas", {})
        components.update(schema.pop("$defs"))
        components["Problem"] = schema
        return document

    app.openapi = openapi  # type: ignore[method-assign]  # FastAPI's documented way to extend the document


def _on_api_error(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, ApiError)
    return problem_response(error)


def _on_validation(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    faults = error.errors()
    if any(fault["type"] == "json_invalid" for fault in faults):
        return problem_response(BadRequestError("malformed_json", "the body is not JSON"))
    entries = [
        ErrorEntry(
            code="invalid_field",
            detail=f"{_place(fault['loc'])}: {fault['msg']}",
        )
        for fault in faults
    ]
    detail = entries[0].detail if entries else "the request is not valid"
    return problem_response(InvalidError("invalid_request", detail, errors=entries))


def _place(location: Sequence[int | str]) -> str:
    """A field as its sender knows it: without the type that pydantic tried for a union."""
    parts = [str(part) for part in location[1:] if not str(part).startswith(_TRIED_TYPES)]
    return ".".join(parts)[:200] or str(location[0])


def _on_http(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    known: dict[int, tuple[type[ApiError], str, str]] = {
        400: (BadRequestError, "malformed_json", "the body is not JSON that can be read"),
        404: (NotFoundError, "not_found", "there is no such path"),
        405: (_MethodNotAllowedError, "method_not_allowed", "the path does not take this method"),
    }
    cls, code, detail = known.get(error.status_code, (ApiError, "internal_error", str(error.detail)))
    return problem_response(cls(code, detail, headers=error.headers))


class _MethodNotAllowedError(ApiError):
    status, title = 405, "Method not allowed"


RESPONSES[405] = {"description": _MethodNotAllowedError.title, "content": _CONTENT}


def _on_bug(request: Request, error: Exception) -> JSONResponse:
    _log.error("request_failed", path=request.url.path, method=request.method, exc_info=error)
    return problem_response(ApiError("internal_error", "the service made a mistake; its log has the cause"))
