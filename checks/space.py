"""The design spaces that have a name, as they stand in a search's row and in its identity.

`stock` is TVM's default rules: no space at all, as searches before there was a choice. Everything else is
data that tuner.space reads. Standard library only.
"""

import hashlib
import json
from typing import Any, Final

STOCK: Final = "post-order-apply"
#: Name -> the space; `stock` and TVM's own word for it mean the same.
NAMED: Final[dict[str, dict[str, Any] | None]] = {
    STOCK: None,
    "stock": None,
    "tilefarm": {"rules": "tilefarm"},
}


def named_space(name: str) -> tuple[dict[str, Any] | None, str]:
    """The space of this name and its hash. Raises KeyError."""
    space = NAMED[name]
    return (None if space is None else dict(space)), space_hash(space)


def space_hash(space: Any) -> str:
    """SHA-256 (hex) of the compact sorted JSON of the space, or of the string "post-order-apply"."""
    text = json.dumps(STOCK if space is None else space, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
