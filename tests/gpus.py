"""For test modules that need a GPU."""

import pytest

from workers.cuda_packages import check_compiler
from workers.errors import DeviceError
from workers.gpu import find_gpu


def skip_without_gpu() -> None:
    """Skips the module that is being imported where there is no GPU, or NVIDIA's packages are missing."""
    try:
        check_compiler()
        find_gpu(0)
    except DeviceError as error:
        pytest.skip(f"not run: {error}", allow_module_level=True)
