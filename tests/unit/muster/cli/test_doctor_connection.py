"""`muster doctor` when the database goes away during the checks: one result says so, and none of other checks does."""

from pathlib import Path
from typing import Any, Self

import psycopg2
import pytest

from muster.cli.doctor import command
from muster.settings import load_settings

LOST = "server closed the connection unexpectedly"


class FakeCursor:
    """A cursor, of which some queries find the connection lost."""

    def __init__(self, connection: "FakeConnection") -> None:
        self._connection = connection

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def execute(self, query: str) -> None:
        self._connection.queries_left -= 1
        if self._connection.queries_left <= 0:
            self._connection.closed = 2
            raise psycopg2.OperationalError(f"{LOST}\n\tThis probably means that the server terminated.")


class FakeConnection:
    """A connection that is lost at the last of some queries."""

    def __init__(self, queries: int) -> None:
        self.queries_left = queries
        self.closed = 0

    def set_session(self, **_: bool) -> None:
        pass

    def cursor(self) -> FakeCursor:
        return FakeCursor(self)

    def close(self) -> None:
        self.closed = 1


@pytest.mark.parametrize("queries", [1, 2])
def test_connection_that_is_lost_during_the_checks_is_one_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, queries: int
) -> None:
    monkeypatch.setattr(psycopg2, "connect", lambda *_, **__: FakeConnection(queries))
    url: dict[str, Any] = {"database_url": "postgresql://127.0.0.1:1/muster"}

    found = list(command._database(load_settings(data_dir=tmp_path, **url)))

    assert [(each.check, each.status, each.message) for each in found] == [("Postgres", "error", LOST)]
