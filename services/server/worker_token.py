"""The local worker's token: made before there is a database, because the worker starts before it.

Nothing here loads a database's library: the worker's start does not wait for that.
"""

import secrets
from pathlib import Path

from services.server.private_files import write_private


def worker_token(path: Path) -> str:
    """The token in `path`, made there where there is none."""
    if not path.exists():
        write_private(path, f"tf_{secrets.token_urlsafe(32)}\n")
    return path.read_text().strip()
