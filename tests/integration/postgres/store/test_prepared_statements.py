"""The server reads and plans a statement once a connection, and a new connection is told it anew."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name

from coordinator_core.store.interface import StoreUnavailable
from coordinator_core.store.postgres import at_once
from coordinator_core.store.postgres.at_once import AtOnce
from coordinator_core.store.postgres.connections import Limits
from coordinator_core.store.postgres.prepared_statements import PreparedStatement

SUM = PreparedStatement.of("add", "SELECT %(left)s::int + %(right)s::int + %(left)s::int")
OTHER = PreparedStatement.of("other", "SELECT %(number)s::int")
IMPOSSIBLE = PreparedStatement.of("impossible", "SELECT %(number)s::int FROM nowhere")


KNOWN = PreparedStatement.of(
    "known", "SELECT name, generic_plans + custom_plans FROM pg_prepared_statements WHERE name <> %(but)s ORDER BY name"
)


@pytest.fixture
def line(database_url: str) -> Iterator[AtOnce]:
    line = AtOnce(database_url, "test", Limits(10_000, 10_000, 10_000, 10))
    yield line
    line.close()


def known(line: AtOnce) -> list[tuple[str, int]]:
    """Return the statements that the connection knows, each with how often it was run."""
    return [(name, count) for name, count in line.run(KNOWN, {"but": "known"})]


def say(line: AtOnce, statement: str) -> None:
    """Say something on the connection itself, as whoever stands in between would."""
    assert line._connection is not None
    with line._connection.cursor() as cursor:
        cursor.execute(statement)


def test_a_parameter_that_stands_twice_is_sent_once() -> None:
    assert SUM.prepare == "PREPARE add AS SELECT $1::int + $2::int + $1::int"
    assert SUM.execute == "EXECUTE add (%(left)s, %(right)s)"


def test_a_statement_is_read_once_and_run_as_often_as_asked(line: AtOnce, monkeypatch: pytest.MonkeyPatch) -> None:
    fetch, said = at_once._fetch, []

    def overheard(connection: PsycopgConnection, text: str, parameters: Mapping[str, Any] | None = None) -> list[Any]:
        said.append(text)
        return fetch(connection, text, parameters)

    monkeypatch.setattr(at_once, "_fetch", overheard)
    assert [line.run(SUM, {"left": 20, "right": number}) for number in range(3)] == [[(40,)], [(41,)], [(42,)]]
    assert said == [SUM.prepare, SUM.execute, SUM.execute, SUM.execute]
    assert known(line) == [("add", 3)]


def test_a_new_connection_is_told_anew(
    line: AtOnce, sql_connection: PsycopgConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(at_once, "ALIVE_S", 0)  # Every moment is as good as a long time.
    line.run(SUM, {"left": 1, "right": 1})
    with sql_connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'muster-test'")
    assert line.run(SUM, {"left": 1, "right": 1}) == [(3,)]
    assert known(line) == [("add", 1)]


def test_a_statement_that_cannot_be_prepared_has_done_nothing_and_may_be_tried_again(line: AtOnce) -> None:
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match="nowhere"):
            line.run(IMPOSSIBLE, {"number": 1})
    assert known(line) == []


def test_a_server_that_has_forgotten_a_statement_is_told_again(line: AtOnce) -> None:
    line.run(SUM, {"left": 1, "right": 1})
    say(line, "DEALLOCATE ALL")
    assert line.run(SUM, {"left": 1, "right": 2}) == [(4,)]


def test_a_server_that_knows_a_statement_already_need_not_be_told(line: AtOnce) -> None:
    line.run(OTHER, {"number": 7})
    say(line, SUM.prepare)
    assert line.run(SUM, {"left": 1, "right": 2}) == [(4,)]
