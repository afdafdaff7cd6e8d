"""A trace under another function's name. Whether one may be applied at all stands in tilefarm.trace_check."""

from typing import Any


def renamed(trace: Any, function_name: str) -> Any:
    """The same checked trace for a function that is not called `main` in its module."""
    instructions, decisions = trace
    return [
        [
            [kind, inputs, [attrs[0], function_name] if kind == "GetSBlock" else attrs, outputs]
            for kind, inputs, attrs, outputs in instructions
        ],
        decisions,
    ]
