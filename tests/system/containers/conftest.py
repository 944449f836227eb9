"""Fixtures: one platform for all tests of this folder, which run in the order of their files."""

from collections.abc import Iterator

import pytest

from tests.support.http_client import Client
from tests.system.containers.platform import Platform, running_platform


@pytest.fixture(scope="session")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    with running_platform(tmp_path_factory.mktemp("platform")) as platform:
        yield platform


@pytest.fixture
def load_balancer(platform: Platform) -> Iterator[Client]:
    """Send requests of any token to the load balancer."""
    client = Client(platform.url("load-balancer", 8080))
    yield client
    client.close()


@pytest.fixture
def operator(platform: Platform) -> dict[str, str]:
    """Return the headers of an operator."""
    return {"Authorization": f"Bearer {platform.token('operator')}"}
