"""Every line of a role's log is JSON, what a dying thread leaves included."""

import json
import subprocess
import sys

PROGRAM = """
import threading
from services import logs
logs.configure()
thread = threading.Thread(target=lambda: [].pop(), name="results")
thread.start()
thread.join()
"""


def test_a_thread_that_dies_is_logged_as_an_event():
    run = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    (line,) = map(json.loads, run.stdout.splitlines())
    assert (line["event"], line["level"], line["thread"]) == ("thread_died", "error", "results")
    assert "IndexError: pop from empty list" in line["exception"]
    assert run.stderr == ""
