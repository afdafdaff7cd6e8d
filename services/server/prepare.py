"""What an embedded service needs before its API and its tuner start: schema, signing key, tokens.

Its imports take most of a second: it is imported in a thread, when other processes start already.
"""

import json

from db.migrate import upgrade
from services.server import keys, tokens
from services.server.home import EmbeddedError, Home
from services.server.private_files import write_private
from services.server.worker_token import worker_token
from services.signing import SigningKeyError


def prepare(home: Home, url: str) -> str:
    """Bring the data directory to what this version needs; returns the user's token. Raises EmbeddedError."""
    upgrade(home.database_url)
    _ensure_key(home)
    user_token = tokens.ensure_file(home.database_url, home.token_file, name="local")
    _adopt_worker_token(home)
    write_private(home.connection_file, json.dumps({"url": url, "token": user_token}))
    return user_token


def _ensure_key(home: Home) -> None:
    path = home.signing_key_file
    try:
        keys.ensure_file(path)
    except SigningKeyError as error:
        raise EmbeddedError(f"{path} holds no signing key ({error}); move it away for a new one") from error


def _adopt_worker_token(home: Home) -> None:
    path = home.worker_token_file
    try:
        tokens.ensure_known(home.database_url, worker_token(path), name="local-worker", scopes=["worker"])
    except ValueError as error:
        raise EmbeddedError(f"{path} is of no use ({error}); move it away for a new one") from error
