"""A preload that no fork server may have: a child forked while its thread holds a lock would hang."""

import threading
import time

threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()
