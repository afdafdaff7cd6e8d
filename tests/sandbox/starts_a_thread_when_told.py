"""A preload whose process has one thread until it gets SIGUSR1."""

import signal
import threading
import time


def _start(*_: object) -> None:
    threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()


signal.signal(signal.SIGUSR1, _start)
