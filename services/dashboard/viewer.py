"""Who looks at a page: a session in an HttpOnly cookie, with the rights of its token and no more.

A page is read by the cookie alone. An action needs the session's CSRF token in a header besides, which only
our own pages know, and a JSON body, which no form of another site can send.
"""

import hashlib
import hmac
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Header, Request, Response

from db.browser_keys import BrowserSession, read_session
from db.session import reading
from db.tokens import Token
from services.api.auth import has_scope
from services.api.deps import EngineDep
from services.api.errors import ForbiddenError, UnauthenticatedError

COOKIE = "tilefarm_session"


@dataclass(frozen=True, slots=True, kw_only=True)
class Viewer:
    session: BrowserSession
    #: What a page of this session sends with an action.
    csrf: str

    @property
    def token(self) -> Token:
        return self.session.token

    def may(self, scope: str) -> bool:
        return has_scope(self.token, scope)

    def may_change(self, owner: str) -> bool:
        """The job of this owner: as the API decides it."""
        return self.may("jobs:write") and (self.token.name == owner or "admin" in self.token.scopes)


def viewer(request: Request, engine: EngineDep) -> Viewer:
    """The session of the request; raises UnauthenticatedError."""
    key = request.cookies.get(COOKIE, "")
    if key:
        with reading(engine) as session:
            found = read_session(session, key)
        if found is not None:
            return Viewer(session=found, csrf=csrf_token(key))
    raise UnauthenticatedError("open the dashboard by its link, or with a token")


def csrf_token(key: str) -> str:
    return hashlib.sha256(f"csrf:{key}".encode()).hexdigest()


def needs(scope: str) -> Callable[[Viewer], Viewer]:
    """A dependency: the viewer, who has the scope."""

    def check(who: Annotated[Viewer, Depends(viewer)]) -> Viewer:
        if not who.may(scope):
            raise ForbiddenError("missing_scope", f"the session lacks the scope {scope}")
        return who

    return check


def acting(
    who: Annotated[Viewer, Depends(viewer)],
    sent: Annotated[str, Header(alias="X-CSRF-Token", max_length=200)] = "",
) -> Viewer:
    """The viewer, who sent the action from a page of this session."""
    if not hmac.compare_digest(sent.encode(), who.csrf.encode()):
        raise ForbiddenError(
            "bad_csrf_token", "the action did not come from a page of this session; reload it"
        )
    return who


def set_cookie(response: Response, request: Request, key: str, *, lifetime_secs: float) -> None:
    response.set_cookie(
        COOKIE,
        key,
        max_age=int(lifetime_secs),
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )


AnyViewer = Annotated[Viewer, Depends(viewer)]
JobsViewer = Annotated[Viewer, Depends(needs("jobs:read"))]
RecordsViewer = Annotated[Viewer, Depends(needs("records:read"))]
Acting = Annotated[Viewer, Depends(acting)]
