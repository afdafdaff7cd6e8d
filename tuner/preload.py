"""Imported by a fork server before it forks: whatever a search child needs is then already there.

Importing it is its whole effect. It starts no thread (provided OPENBLAS_NUM_THREADS=1 stood before numpy).
"""

import tuner.preload_tvm  # noqa: F401 - imported for the children to come
from tuner.imports import import_alone

import_alone("xgboost", without=("pandas", "pyarrow", "sklearn", "cupy", "cudf"))
