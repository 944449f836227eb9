"""One node serves a whole file of tests; each test has groups of its own."""

from collections.abc import Iterator

import psycopg2
import pytest
from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name

from muster.settings import psql_url
from tests.api.client import Client, Group, fresh_id
from tests.conftest import Databases
from tests.nodes import Node, running_node

QUICK = {"group_initial_rebalance_delay_ms": 0}


@pytest.fixture(scope="module")
def node(databases: Databases) -> Iterator[Node]:
    url = databases.create()
    with running_node(url, **QUICK) as node:
        yield node
    databases.drop(url)


@pytest.fixture(scope="module")
def client(node: Node) -> Iterator[Client]:
    client = Client(node.url)
    yield client
    client.close()


@pytest.fixture
def group(client: Client) -> Group:
    """Give a group that does not exist yet."""
    return client.group(fresh_id())


@pytest.fixture
def rows(node: Node) -> Iterator[PsycopgConnection]:
    """Connect to the node's database as people with SQL do; every statement commits by itself."""
    assert node.settings.database_url is not None
    connection = psycopg2.connect(psql_url(node.settings.database_url.get_secret_value()))
    connection.autocommit = True
    yield connection
    connection.close()


@pytest.fixture(autouse=True)
def ends_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trust no reporter for other groups: the tests of a file share a node and the topic orders, and no ends of it."""
    monkeypatch.setattr("api.http.call.EVERY_TOPIC", ())
