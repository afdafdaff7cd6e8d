"""Imported by the worker's fork server before it forks: what a measuring child needs is then there already.

Importing it is its whole effect; it starts no thread.
"""

from tuner.tvm_light import load_tvm

load_tvm()

import tvm.s_tir.analysis  # noqa: E402 - after the light loader, on purpose
import tvm.s_tir.schedule  # noqa: E402, F401 - the same

import workers.candidate  # noqa: E402 - the same
import workers.detect_child  # noqa: E402 - the same
import workers.reference_child  # noqa: E402 - the same
import workers.selftest_child  # noqa: E402, F401 - the same
