"""CPU seconds of a tree of processes, orphans included."""

import subprocess
import sys

_SCRIPT = """
import subprocess, sys
from bench.processes import adopt_orphans, reaped_cpu_secs
adopt_orphans()
spin = "import time\\nwhile time.process_time() < 0.4: pass"
# The middle process dies at once and leaves its child behind.
middle = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {spin!r}])"
subprocess.run([sys.executable, "-c", middle])
print(reaped_cpu_secs())
"""


def test_a_grandchild_whose_parent_died_is_counted():
    done = subprocess.run([sys.executable, "-c", _SCRIPT], capture_output=True, text=True, check=True)
    assert float(done.stdout) >= 0.4
