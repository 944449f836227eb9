"""`/readyz` reports the current state of the database, and recovers with it."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import closing

import psycopg2
import pytest
from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name

from api.http.app import make_app
from api.http.limits import HttpLimits
from api.shared.node_context import NodeContext
from coordinator_core.runtime.config import NodeConfig
from coordinator_core.runtime.coordinator import Coordinator
from muster.settings import psql_url
from tests.integration.http.in_process import answer_of
from tests.support.http_client import Client, Json
from tests.support.memory_store import MemoryStore
from tests.support.no_queries import NO_QUERIES
from tests.support.nodes import Node, running_node
from tests.support.waiting import poll_until


@pytest.fixture
def node(database_url: str) -> Iterator[Node]:
    with running_node(database_url) as node:
        yield node


@pytest.fixture
def client(node: Node) -> Iterator[Client]:
    with closing(Client(node.url)) as client:
        yield client


@pytest.fixture
def rows(database_url: str) -> Iterator[PsycopgConnection]:
    with closing(psycopg2.connect(psql_url(database_url))) as connection:
        connection.autocommit = True
        yield connection


def readiness(client: Client) -> tuple[int, Json]:
    answer = client.call("GET", "/readyz")
    assert answer.headers["content-type"] == "application/json"
    assert answer.json["is_ready"] == (answer.status == 200)
    return answer.status, answer.json["reasons"]


def test_serving_node_is_ready(client: Client) -> None:
    poll_until(lambda: readiness(client) == (200, []))


def test_older_schema_is_reported_until_migrated(client: Client, rows: PsycopgConnection) -> None:
    with rows.cursor() as cursor:
        cursor.execute(
            "UPDATE alembic_version SET version_num = '0000' RETURNING (SELECT version_num FROM alembic_version)"
        )
        ((newest,),) = cursor.fetchall()
        expected = f"the database has schema 0000 and this node needs {newest}: run muster migrate"
        poll_until(lambda: readiness(client) == (503, [expected]))
        cursor.execute("UPDATE alembic_version SET version_num = '9999'")
        poll_until(lambda: readiness(client) == (200, []))


def test_missing_partitions_are_a_warning(client: Client, rows: PsycopgConnection) -> None:
    with rows.cursor() as cursor:
        cursor.execute(
            "SELECT 'rebalances_p' || to_char(clock_timestamp() AT TIME ZONE 'UTC' + interval '1 day', 'YYYYMMDD')"
        )
        ((tomorrow,),) = cursor.fetchall()
        cursor.execute(f"DROP TABLE {tomorrow}")

    lacks = "history tables lack partitions for coming days, so rows go to the default partitions"
    poll_until(lambda: readiness(client) == (200, [lacks]))


def test_unreachable_database_is_reported_until_it_returns(client: Client, database_url: str) -> None:
    admin = psycopg2.connect(psql_url(database_url.rpartition("/")[0] + "/postgres"))
    admin.autocommit = True
    name = database_url.rpartition("/")[2]
    poll_until(lambda: readiness(client) == (200, []))
    with closing(admin), admin.cursor() as cursor:
        cursor.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
        cursor.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (name,))
        poll_until(lambda: readiness(client)[0] != 200)
        away = readiness(client)
        lives, scraped = client.call("GET", "/healthz").status, client.call("GET", "/metrics")
        cursor.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
        poll_until(lambda: readiness(client)[0] == 200)
        back = readiness(client)

    assert (away[0], lives, scraped.status, back) == (503, 200, 200, (200, []))
    assert any("database" in reason for reason in away[1])
    assert b"kafka_consumergroup_lag_sum" not in scraped.body


# -- a node that stops ----------------------------------------------------------------------------------------


def test_stopping_node_serves_only_its_own_status() -> None:
    statuses, readiness = asyncio.run(asked_while_stopping())

    assert statuses == {"/healthz": 200, "/readyz": 503, "/metrics": 200, "/v1/groups": 503}
    assert json.loads(readiness) == {"is_ready": False, "reasons": ["the node is stopping"]}


async def asked_while_stopping() -> tuple[dict[str, int], bytes]:
    """Return the responses of a node that has released its shards and waits for pending responses."""
    coordinator = Coordinator(MemoryStore(), NodeConfig("a", {"http": "http://a"}))
    await coordinator.start()
    limits = HttpLimits()
    app = make_app(NodeContext(coordinator, NO_QUERIES, limits), limits, "1")
    app.begin_shutdown()
    await coordinator.stop()
    answers = {path: await answer_of(app, path) for path in ("/healthz", "/readyz", "/metrics", "/v1/groups")}
    await app.close()
    return {path: status for path, (status, _) in answers.items()}, answers["/readyz"][1]
