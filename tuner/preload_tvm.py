"""Imported by a fork server before it forks, where children need TVM and no cost model: the API's intake.

Importing it is its whole effect. It starts no thread (provided OPENBLAS_NUM_THREADS=1 stood before numpy).
"""

from tuner.tvm_light import load_tvm

load_tvm()

import tvm.s_tir.meta_schedule  # noqa: E402, F401 - after the light loader, on purpose
