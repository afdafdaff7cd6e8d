"""A page: a template, rendered with every string escaped, under headers that let it load only our own files.

What a handler raises becomes a page too; one who has no session is shown where to open one.
"""

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any
from urllib.parse import quote

from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from sqlalchemy.exc import InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from services.api.errors import ApiError, InvalidError, UnauthenticatedError, UnavailableError
from services.dashboard import words
from services.dashboard.assets import asset_url
from services.dashboard.sending import send
from services.dashboard.viewer import COOKIE, Viewer

HEADERS = {
    "Content-Security-Policy": (
        # The hash is that of the empty style element into which plotly.js puts its rules.
        "default-src 'none'; script-src 'self'; "
        "style-src 'self' 'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='; img-src 'self' data:; "
        "connect-src 'self'; font-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}

_templates = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_templates.filters.update(words.FILTERS)
_templates.globals.update(asset=asset_url, span=words.span, latency=words.latency)


def page(
    template: str, *, viewer: Viewer | None, request: Request, status: int = 200, **context: Any
) -> Response:
    text = _templates.get_template(template).render(
        viewer=viewer,
        # Who has a session finds the way from a page of an error too.
        signed_in=COOKIE in request.cookies,
        path=request.url.path,
        base_url=str(request.base_url).rstrip("/"),
        **context,
    )
    return send(request, text.encode(), media_type="text/html; charset=utf-8", status=status)


class PageRoute(APIRoute):
    """A route whose answers, errors among them, are pages under the dashboard's headers."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def answer(request: Request) -> Response:
            try:
                response = await handle(request)
            except UnauthenticatedError:
                query = f"?{request.url.query}" if request.url.query else ""
                response = RedirectResponse(f"/open?next={quote(request.url.path + query)}", status_code=303)
            except RequestValidationError:
                response = error_page(request, InvalidError("invalid_request", "This address does not read."))
            except ApiError as error:
                response = error_page(request, error)
            except (OperationalError, InterfaceError, PoolTimeout):
                said = "The database does not answer. This page tries again by itself."
                response = error_page(request, UnavailableError("database_unavailable", said))
            response.headers.update(HEADERS)
            return response

        return answer


def error_page(request: Request, error: ApiError) -> Response:
    response = page("error.html", viewer=None, request=request, status=error.status, error=error)
    response.headers.update(HEADERS)
    return response
