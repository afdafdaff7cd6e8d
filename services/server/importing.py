"""A role's imports, faster: Python's collector looks for no garbage meanwhile."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def importing() -> Iterator[None]:
    """Around the imports of a process that lives for long: half a million objects, none of them garbage.

    To look through them again and again takes a seventh of the imports' time; nor is it done later.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
