"""The database's URL as a setting: what no release serves is refused when a role starts, by its name."""

from typing import Annotated

from pydantic import AfterValidator

_FORMS = "sqlite:///path or postgresql+psycopg://user:password@host/name"


def _served(url: str) -> str:
    """The URL as SQLAlchemy takes it; raises ValueError, which never repeats the URL: it holds a password."""
    # A worker's image has no SQLAlchemy, and reads no such setting.
    from sqlalchemy import make_url
    from sqlalchemy.exc import ArgumentError

    if url.startswith("postgres://"):
        # As libpq and those who sell servers write it.
        url = url.replace("postgres://", "postgresql://", 1)
    try:
        read = make_url(url)
    except (ArgumentError, ValueError):
        raise ValueError(f"it does not read as a URL; it is {_FORMS}") from None
    if read.drivername not in {"sqlite", "postgresql", "postgresql+psycopg"}:
        raise ValueError(f"no database that is served: {read.drivername[:40]}; it is {_FORMS}")
    return url


DatabaseUrl = Annotated[str, AfterValidator(_served)]
