"""Until something is so that another process or thread brings about."""

import time
from collections.abc import Callable


def wait_until(condition: Callable[[], object], timeout_secs: float = 15.0) -> None:
    deadline = time.monotonic() + timeout_secs
    while not condition():
        assert time.monotonic() < deadline, f"the condition did not come true within {timeout_secs:g} s"
        time.sleep(0.01)
