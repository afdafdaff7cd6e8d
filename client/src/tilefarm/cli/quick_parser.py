"""TVMScript's parser in a third of its time, for a user's file of functions.

At each function it asks for the whole stack as `inspect.stack` tells it, and that looks through all modules
for every frame of an import: those have no file. It reads each frame's variables and line of source, no more.
The server does the same for TVM's intrinsics (tuner/tvm_light.py): neither side may import the other.
"""

import inspect
import linecache
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quick_parser() -> Iterator[None]:
    """Whoever else asks for the stack meanwhile is answered in the same way."""
    original = inspect.stack
    inspect.stack = _stack
    try:
        yield
    finally:
        inspect.stack = original


def _stack(context: int = 1) -> list[inspect.FrameInfo]:  # noqa: ARG001 - inspect.stack's
    frames, frame = [], inspect.currentframe()
    while frame is not None and (frame := frame.f_back) is not None:
        name, number = frame.f_code.co_filename, frame.f_lineno
        line = linecache.getline(name, number, frame.f_globals)
        lines, index = ([line], 0) if line else (None, None)
        frames.append(inspect.FrameInfo(frame, name, number, frame.f_code.co_name, lines, index))
    return frames
