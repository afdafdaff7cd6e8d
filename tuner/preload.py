"""Imported by a fork server before it forks: whatever a search or intake child needs is then already there.

Importing it is its whole effect. It starts no thread (provided OPENBLAS_NUM_THREADS=1 stood before numpy).
"""

import xgboost  # noqa: F401 - imported for the children to come

from tuner.tvm_light import load_tvm

load_tvm()

import tvm.s_tir.meta_schedule  # noqa: E402, F401 - after the light loader, on purpose
