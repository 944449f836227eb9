"""What Postgres says about an error is logged, and in no answer."""

import re
from collections.abc import Iterator
from contextlib import closing
from typing import Final

import psycopg2
import pytest
import structlog
from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name

from muster.settings import psql_url
from tests.support.http_client import Client, Group, Json, fresh_id, position
from tests.support.nodes import Node, running_node
from tests.support.waiting import poll_until

INTERNALS: Final = re.compile(
    rb"secret|relation|column|constraint|trigger|statement|SELECT|INSERT|PL/pgSQL|psycopg|SSL|FATAL|ERROR:|server at"
)
"""Names of the test's triggers and tables, and words of Postgres and of its driver."""
OPTIONS: Final = {"group_initial_rebalance_delay_ms": 0, "query_timeout_ms": 200, "request_timeout_ms": 60_000}
COMMIT: Final = {"generation": -1, "member_id": "", "offsets": [position(1)]}


@pytest.fixture
def node(database_url: str) -> Iterator[Node]:
    with running_node(database_url, **OPTIONS) as node:
        yield node


@pytest.fixture
def client(node: Node) -> Iterator[Client]:
    with closing(Client(node.url)) as client:
        yield client


@pytest.fixture
def group(client: Client) -> Group:
    return client.group(fresh_id())


@pytest.fixture
def rows(database_url: str) -> Iterator[PsycopgConnection]:
    with closing(psycopg2.connect(psql_url(database_url))) as connection:
        connection.autocommit = True
        yield connection


@pytest.fixture
def events() -> Iterator[list[Json]]:
    with structlog.testing.capture_logs() as events:
        yield events


def execute(rows: PsycopgConnection, statement: str) -> None:
    with rows.cursor() as cursor:
        cursor.execute(statement)


def refuse_writes(rows: PsycopgConnection, table: str, sqlstate: str) -> None:
    """Let every INSERT into a table fail with an error of this code."""
    execute(
        rows,
        "CREATE FUNCTION secret_function() RETURNS trigger LANGUAGE plpgsql AS"
        f" $$BEGIN RAISE EXCEPTION 'secret text' USING ERRCODE = '{sqlstate}'; END$$;"
        f"CREATE TRIGGER secret_trigger BEFORE INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION secret_function()",
    )


@pytest.mark.parametrize(
    ("table", "sqlstate"), [("offset_log", "23514"), ("offset_log", "53100"), ("groups", "XX000"), ("changes", "40001")]
)
def test_refused_write_is_answered_without_the_reason(
    client: Client, group: Group, rows: PsycopgConnection, events: list[Json], table: str, sqlstate: str
) -> None:
    refuse_writes(rows, table, sqlstate)
    answer = {
        "offset_log": lambda: group.post("offsets", COMMIT),
        "groups": lambda: group.post("offsets", COMMIT),
        "changes": lambda: client.call("PUT", "/v1/topics/orders", {"partitions": 3}),
    }[table]()
    assert answer.status == 503
    assert not INTERNALS.search(answer.body), answer
    assert any("secret text" in str(event.get("reason")) for event in events)


def test_failed_query_is_answered_without_the_reason(
    client: Client, rows: PsycopgConnection, events: list[Json]
) -> None:
    execute(rows, "ALTER TABLE topics RENAME TO secret_topics")
    answer = client.call("GET", "/v1/topics")
    assert (answer.status, answer.code) == (503, "COORDINATOR_NOT_AVAILABLE")
    assert not INTERNALS.search(answer.body), answer
    assert "topics" in next(event["reason"] for event in events if event["event"] == "query_failed")


def test_query_beyond_its_timeout_is_answered_without_the_reason(client: Client, database_url: str) -> None:
    with closing(psycopg2.connect(psql_url(database_url))) as locking:
        execute(locking, "LOCK TABLE topics")
        answer = client.call("GET", "/v1/topics")
    assert answer.status == 503
    assert not INTERNALS.search(answer.body), answer


def test_lost_database_is_answered_without_the_reason(client: Client, group: Group, database_url: str) -> None:
    name = database_url.rpartition("/")[2]
    with closing(psycopg2.connect(psql_url(database_url).replace(f"/{name}", "/postgres"))) as admin:
        admin.autocommit = True
        execute(admin, f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
        with admin.cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (name,))
        poll_until(lambda: client.call("GET", "/readyz").status == 503)
        answers = [
            client.call("GET", "/readyz"),
            client.call("GET", "/v1/topics"),
            client.call("PUT", "/v1/topics/orders", {"partitions": 3}),
            group.post("offsets", COMMIT),
        ]
        execute(admin, f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
    assert [answer.status for answer in answers] == [503] * 4
    assert [answer for answer in answers if INTERNALS.search(answer.body)] == []
