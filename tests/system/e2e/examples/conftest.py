"""A node with short timeouts for the example programs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.databases import Databases
from tests.support.nodes import running_node


@pytest.fixture
def reader_database(databases: Databases) -> Iterator[str]:
    url = databases.create()
    yield url
    databases.drop(url)


@pytest.fixture
def reader_node(reader_database: str) -> Iterator[str]:
    quick = {"group_initial_rebalance_delay_ms": 100, "group_min_session_timeout_ms": 100}
    with running_node(reader_database, **quick) as node:
        yield node.url
