"""The server reads and plans a statement once a connection, and a new connection is told it anew."""

from collections.abc import Iterator

import pytest
from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name

from coordinator_core.store.interface import StoreUnavailable
from coordinator_core.store.postgres import connections
from coordinator_core.store.postgres.connections import Limits, Line, Transaction
from coordinator_core.store.postgres.prepared_statements import PreparedStatement

SUM = PreparedStatement.of("add", "SELECT %(left)s::int + %(right)s::int + %(left)s::int")
IMPOSSIBLE = PreparedStatement.of("impossible", "SELECT %(number)s::int FROM nowhere")


@pytest.fixture
def line(database_url: str) -> Iterator[Line]:
    line = Line(database_url, "test", 1, Limits(10_000, 10_000, 10_000, 10), stands_alone=True)
    yield line
    line.close()


def plans(line: Line) -> list[tuple[str, int]]:
    """Return the statements that the line's connection knows, each with how often it was run."""

    def read(transaction: Transaction) -> list[tuple[str, int]]:
        rows = transaction.execute("SELECT name, generic_plans + custom_plans FROM pg_prepared_statements")
        return [(name, count) for name, count in rows]

    return line.read(read)


def test_a_parameter_that_stands_twice_is_sent_once() -> None:
    assert SUM.prepare == "PREPARE add AS SELECT $1::int + $2::int + $1::int"
    assert SUM.execute == "EXECUTE add (%(left)s, %(right)s)"


def test_a_statement_is_read_once_and_run_as_often_as_asked(line: Line) -> None:
    assert [line.at_once(SUM, {"left": 20, "right": number}) for number in range(3)] == [[(40,)], [(41,)], [(42,)]]
    assert plans(line) == [("add", 3)]


def test_a_new_connection_is_told_anew(
    line: Line, sql_connection: PsycopgConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "ALIVE_S", 0)  # Every moment is as good as a long time.
    line.at_once(SUM, {"left": 1, "right": 1})
    with sql_connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'muster-test'")
    assert line.at_once(SUM, {"left": 1, "right": 1}) == [(3,)]
    assert plans(line) == [("add", 1)]


def test_a_statement_that_cannot_be_prepared_has_done_nothing_and_may_be_tried_again(line: Line) -> None:
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match="nowhere"):
            line.at_once(IMPOSSIBLE, {"number": 1})
    assert plans(line) == []
