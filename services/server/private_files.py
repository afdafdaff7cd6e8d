"""Files that only their owner may read: tokens, keys, connections."""

import os
from pathlib import Path


def write_private(path: Path, content: str) -> None:
    """Write with mode 0600, atomically."""
    temporary = path.with_suffix(".new")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(content)
    temporary.replace(path)
