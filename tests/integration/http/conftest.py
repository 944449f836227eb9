"""Fixtures: one node per test file; each test has groups of its own."""

from collections.abc import Iterator
from uuid import uuid4

import psycopg2
import pytest
from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name

from muster.settings import psql_url
from tests.support.databases import Databases
from tests.support.http_client import Client, Group, fresh_id, position
from tests.support.kafka_listener import wait_until_serving
from tests.support.nodes import Node, running_node
from tests.support.offset_log import wait_for_checkpoint

QUICK = {"group_initial_rebalance_delay_ms": 0}


@pytest.fixture(scope="module")
def node(databases: Databases) -> Iterator[Node]:
    url = databases.create()
    with running_node(url, **QUICK) as node:
        wait_until_serving(node)
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
def topic() -> str:
    """Give a topic that no other test uses: the end of a log counts for every group that reads it."""
    return fresh_id("topic")


@pytest.fixture
def rows(node: Node) -> Iterator[PsycopgConnection]:
    """Connect to the node's database with autocommit."""
    assert node.settings.database_url is not None
    connection = psycopg2.connect(psql_url(node.settings.database_url.get_secret_value()))
    connection.autocommit = True
    yield connection
    connection.close()


@pytest.fixture
def run_id(rows: PsycopgConnection, group: Group) -> str:
    """Give a proposal to expire one offset, which is not due."""
    group.post("offsets", {"generation": -1, "member_id": "", "offsets": [position(7)]})
    wait_for_checkpoint(rows)
    run_id = str(uuid4())
    with rows.cursor() as cursor:
        cursor.execute(
            "INSERT INTO maintenance_runs (run_id, kind, as_of, status, counts)"
            " VALUES (%s, 'offset_retention', '2026-01-02T03:04:05Z', 'proposed', '{\"groups\": 1}')",
            (run_id,),
        )
        cursor.execute(
            "INSERT INTO expiry_candidates"
            " (run_id, group_id, shard_id, topic, partition, commit_version, committed_at, reason)"
            " SELECT %s, group_id, shard_id, topic, partition, commit_version, committed_at, 'retention'"
            " FROM offsets WHERE group_id = %s",
            (run_id, group.group_id),
        )
    return run_id
