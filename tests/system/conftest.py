"""One embedded service for all tests that do not kill anything of it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.system.modules import body
from tests.system.service import Service, run_service


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.system)


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """An embedded service that is shared; tests that kill parts of it start their own."""
    with run_service(tmp_path_factory.mktemp("service") / "data") as running:
        yield running


@pytest.fixture(scope="session")
def tuned_mm_relu(service: Service) -> dict[str, Any]:
    """A finished job on the classroom's mm_relu."""
    return service.wait_job(service.submit(body("mm_relu", max_trials=48))["id"])
