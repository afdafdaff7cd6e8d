"""How a browser gets its session: by the link of `tilefarm-server up`, which works once, or by a token.

The link's key stands behind the `#`, so that it reaches no log, and becomes a cookie by a POST of the page.
"""

from typing import Annotated

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from db.browser_keys import KeyKind, end_session, make_key, use_link
from db.session import transaction
from db.tokens import find_token
from services.api.deps import EngineDep
from services.api.errors import ForbiddenError, UnauthenticatedError
from services.dashboard.page import PageRoute, page
from services.dashboard.viewer import COOKIE, Acting, set_cookie

pages = APIRouter(include_in_schema=False, route_class=PageRoute)
actions = APIRouter(include_in_schema=False)
SESSION_SECS = 14 * 86_400.0
GUEST_LINK_SECS = 7 * 86_400.0
_Key = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[\x21-\x7e]+$")]


class _Open(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    link: _Key | None = None
    token: _Key | None = None


@pages.get("/open")
def open_page(request: Request) -> Response:
    return page("open.html", viewer=None, request=request)


@actions.post("/session", status_code=204)
def open_session(body: _Open, request: Request, engine: EngineDep) -> Response:
    with transaction(engine) as session:
        key = None
        if body.link is not None:
            key = use_link(session, body.link, lifetime_secs=SESSION_SECS)
        elif body.token is not None and (token := find_token(session, body.token)) is not None:
            key = make_key(session, token.id, kind=KeyKind.SESSION, lifetime_secs=SESSION_SECS)
    if key is None:
        said = "the link was used before, or is too old" if body.link else "the token is not valid"
        raise UnauthenticatedError(said)
    response = Response(status_code=204)
    set_cookie(response, request, key, lifetime_secs=SESSION_SECS)
    return response


@actions.post("/session/end", status_code=204)
def leave(who: Acting, request: Request, engine: EngineDep) -> Response:
    del who
    with transaction(engine) as session:
        end_session(session, request.cookies[COOKIE])
    response = Response(status_code=204)
    response.delete_cookie(COOKIE, httponly=True, samesite="strict")
    return response


@actions.post("/session/guest-link")
def guest_link(who: Acting, request: Request, engine: EngineDep) -> dict[str, str]:
    """A link for one guest, who may look and do nothing."""
    if who.session.read_only:
        raise ForbiddenError("read_only", "a guest makes no links")
    with transaction(engine) as session:
        key = make_key(
            session, who.token.id, kind=KeyKind.LINK, lifetime_secs=GUEST_LINK_SECS, read_only=True
        )
    return {"url": f"{str(request.base_url).rstrip('/')}/open#link={key}"}
