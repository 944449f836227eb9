"""Prepared statements: parsed once per connection, and prepared again on a new connection."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name

from coordinator_core.state_store.interface import StoreUnavailable
from coordinator_core.state_store.postgres import autocommit
from coordinator_core.state_store.postgres.autocommit import AutocommitConnection
from coordinator_core.state_store.postgres.connections import Limits
from coordinator_core.state_store.postgres.prepared_statements import PreparedStatement

SUM = PreparedStatement.of("add", "SELECT %(left)s::int + %(right)s::int + %(left)s::int")
OTHER = PreparedStatement.of("other", "SELECT %(number)s::int")
IMPOSSIBLE = PreparedStatement.of("impossible", "SELECT %(number)s::int FROM nowhere")


KNOWN = PreparedStatement.of(
    "known", "SELECT name, generic_plans + custom_plans FROM pg_prepared_statements WHERE name <> %(but)s ORDER BY name"
)


@pytest.fixture
def pool(database_url: str) -> Iterator[AutocommitConnection]:
    pool = AutocommitConnection(database_url, "test", Limits(10_000, 10_000, 10_000, 10))
    yield pool
    pool.close()


def known(pool: AutocommitConnection) -> list[tuple[str, int]]:
    """Return the prepared statements of the connection, each with its number of executions."""
    return [(name, count) for name, count in pool.run(KNOWN, {"but": "known"})]


def say(pool: AutocommitConnection, statement: str) -> None:
    """Run a statement directly on the connection, as a connection pooler would."""
    assert pool._connection is not None
    with pool._connection.cursor() as cursor:
        cursor.execute(statement)


def test_repeated_parameter_is_sent_once() -> None:
    assert SUM.prepare == "PREPARE add AS SELECT $1::int + $2::int + $1::int"
    assert SUM.execute == "EXECUTE add (%(left)s, %(right)s)"


def test_a_statement_is_read_once_and_run_as_often_as_asked(
    pool: AutocommitConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetch, said = autocommit._fetch, []

    def overheard(connection: PsycopgConnection, text: str, parameters: Mapping[str, Any] | None = None) -> list[Any]:
        said.append(text)
        return fetch(connection, text, parameters)

    monkeypatch.setattr(autocommit, "_fetch", overheard)
    assert [pool.run(SUM, {"left": 20, "right": number}) for number in range(3)] == [[(40,)], [(41,)], [(42,)]]
    assert said == [SUM.prepare, SUM.execute, SUM.execute, SUM.execute]
    assert known(pool) == [("add", 3)]


def test_new_connection_prepares_statements_again(
    pool: AutocommitConnection, sql_connection: PsycopgConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(autocommit, "ALIVE_S", 0)  # Every moment is as good as a long time.
    pool.run(SUM, {"left": 1, "right": 1})
    with sql_connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'muster-test'")
    assert pool.run(SUM, {"left": 1, "right": 1}) == [(3,)]
    assert known(pool) == [("add", 1)]


def test_a_statement_that_cannot_be_prepared_has_done_nothing_and_may_be_tried_again(
    pool: AutocommitConnection,
) -> None:
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match="nowhere"):
            pool.run(IMPOSSIBLE, {"number": 1})
    assert known(pool) == []


def test_statement_is_prepared_again_when_the_server_forgot_it(pool: AutocommitConnection) -> None:
    pool.run(SUM, {"left": 1, "right": 1})
    say(pool, "DEALLOCATE ALL")
    assert pool.run(SUM, {"left": 1, "right": 2}) == [(4,)]


def test_known_statement_is_not_prepared_again(pool: AutocommitConnection) -> None:
    pool.run(OTHER, {"number": 7})
    say(pool, SUM.prepare)
    assert pool.run(SUM, {"left": 1, "right": 2}) == [(4,)]
