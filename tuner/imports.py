"""Packages without those that they import merely because they are installed.

TVM brings PyTorch in, XGBoost pandas, pyarrow and scikit-learn. None is of use to the farm's processes. They
take seconds, and start threads (a memory manager's, on a GPU's host NVIDIA's driver's), after which a fork
server may not fork.
"""

import sys
from collections.abc import Collection
from importlib import import_module
from typing import Any


def import_alone(name: str, *, without: Collection[str]) -> Any:
    """The module `name`, to which the packages `without` are not installed while it is imported.

    Whoever imports them later gets them; those that were imported before stay.
    """
    hidden = [package for package in without if package not in sys.modules]
    if name in sys.modules:
        return import_module(name)
    for package in hidden:
        sys.modules[package] = None  # type: ignore[assignment]  # so Python marks what is not to be found
    try:
        return import_module(name)
    finally:
        for package in hidden:
            sys.modules.pop(package, None)
