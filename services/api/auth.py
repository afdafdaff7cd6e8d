"""Who asks: bearer tokens with scopes, checked on every request against their row.

Reading is by scope. Changing a job takes `jobs:write` and being its owner, or `admin`, which implies
every other scope.
"""

from collections.abc import Awaitable, Callable
from typing import Annotated

from fastapi import Depends
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from sqlalchemy.orm import Session

from db.session import reading
from db.tokens import Token, find_token
from services.api.deps import EngineDep
from services.api.errors import ForbiddenError, UnauthenticatedError

_bearer = HTTPBearer(auto_error=False, description="A tilefarm token: `tilefarm-server token create`")


#: What a request sent, not yet looked at.
Credentials = Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]


def authenticated(engine: EngineDep, credentials: Credentials) -> Token:
    """The token of the request; raises UnauthenticatedError."""
    with reading(engine) as session:
        return known_token(session, credentials)


def known_token(session: Session, credentials: HTTPAuthorizationCredentials | None) -> Token:
    """The row behind the credentials; raises UnauthenticatedError."""
    if credentials is None:
        raise UnauthenticatedError("send a token: Authorization: Bearer …")
    token = find_token(session, credentials.credentials) if credentials.credentials.isascii() else None
    if token is None:
        raise UnauthenticatedError("the token is unknown, expired or revoked")
    return token


def has_scope(token: Token, scope: str) -> bool:
    return scope in token.scopes or "admin" in token.scopes


def require(scope: str) -> Callable[[Token], Awaitable[Token]]:
    """A dependency: the request's token, which has the scope."""

    async def check(token: Annotated[Token, Depends(authenticated)]) -> Token:
        require_scope(token, scope)
        return token

    return check


def require_scope(token: Token, scope: str) -> None:
    """Raises ForbiddenError where the token lacks it."""
    if not has_scope(token, scope):
        raise ForbiddenError("missing_scope", f"the token lacks the scope {scope}")


def require_owner(token: Token, owner: str) -> None:
    """Raises ForbiddenError unless the token is the owner's or an administrator's."""
    if token.name != owner and "admin" not in token.scopes:
        raise ForbiddenError("not_the_owner", "the job belongs to another token")


AnyToken = Annotated[Token, Depends(authenticated)]
JobsReader = Annotated[Token, Depends(require("jobs:read"))]
JobsWriter = Annotated[Token, Depends(require("jobs:write"))]
RecordsReader = Annotated[Token, Depends(require("records:read"))]
RecordsImporter = Annotated[Token, Depends(require("records:import"))]
WorkerToken = Annotated[Token, Depends(require("worker"))]
Admin = Annotated[Token, Depends(require("admin"))]
