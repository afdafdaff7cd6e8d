"""TVM's containers and boxed numbers as plain JSON values, in the one text that is hashed and stored."""

import json
from typing import Any


def plain(value: Any) -> Any:
    """Dicts, lists, strings, numbers, None; TypeError for what JSON cannot hold."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return str(value)
    if hasattr(value, "items"):
        return {str(key): plain(item) for key, item in value.items()}
    if hasattr(value, "value"):  # IntImm, FloatImm
        return plain(value.value)
    return [plain(item) for item in value]


def compact(obj: Any) -> str:
    """JSON with sorted keys and no spaces."""
    return json.dumps(obj, sort_keys=True, separators=(",", ":"))
