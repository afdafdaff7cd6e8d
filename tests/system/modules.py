"""Bodies of submissions, from the classroom's modules."""

import functools
import json
from typing import Any

from tuner.tvm_light import load_tvm


@functools.cache
def module_json(name: str) -> str:
    load_tvm()
    import tvm

    from examples.classroom import modules

    text: str = tvm.ir.save_json(modules()[name])
    return text


def body(name: str, **fields: Any) -> dict[str, Any]:
    """The body of `POST /v1/jobs` for a classroom module on this machine's CPU."""
    return {"name": name, "module": json.loads(module_json(name)), "target": "local", **fields}
