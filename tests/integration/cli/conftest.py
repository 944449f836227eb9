"""One node serves a whole file of tests, and the command is run in this process, as `muster` runs it."""

from collections.abc import Iterator
from contextlib import closing

import psycopg2
import pytest
from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name
from structlog.testing import capture_logs

from muster.settings import psql_url
from tests.support.databases import Databases
from tests.support.fake_node import FakeNode
from tests.support.http_client import Client, Group, fresh_id
from tests.support.muster_command import QUICK, Muster
from tests.support.nodes import Node, running_node


@pytest.fixture(scope="module")
def node(databases: Databases) -> Iterator[Node]:
    url = databases.create()
    # The node's log would be mixed with the command's output.
    with capture_logs(), running_node(url, **QUICK) as node:
        yield node
    databases.drop(url)


@pytest.fixture(scope="module")
def client(node: Node) -> Iterator[Client]:
    with closing(Client(node.url)) as client:
        yield client


@pytest.fixture
def group(client: Client) -> Group:
    """Give a group that does not exist yet."""
    return client.group(fresh_id())


@pytest.fixture
def topic() -> str:
    """Give a topic that no other test uses: its log ends count for every group that reads it."""
    return fresh_id("topic")


@pytest.fixture
def fake() -> Iterator[FakeNode]:
    fake = FakeNode()
    yield fake
    fake.close()


@pytest.fixture
def muster(bare_muster: Muster, node: Node, monkeypatch: pytest.MonkeyPatch) -> Muster:
    """Return the command, configured for the node of this module."""
    monkeypatch.setenv("MUSTER_URL", node.url)
    monkeypatch.setenv("MUSTER_ACTOR", "ada")
    return bare_muster


@pytest.fixture
def rows(node: Node) -> Iterator[PsycopgConnection]:
    """Connect to the node's database; every statement commits by itself."""
    assert node.settings.database_url is not None
    connection = psycopg2.connect(psql_url(node.settings.database_url.get_secret_value()))
    connection.autocommit = True
    yield connection
    connection.close()


@pytest.fixture
def database_in_use(node: Node, monkeypatch: pytest.MonkeyPatch) -> str:
    assert node.settings.database_url is not None
    url = psql_url(node.settings.database_url.get_secret_value())
    monkeypatch.setenv("MUSTER_DATABASE_URL", url)
    return url
