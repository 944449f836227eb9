"""What `muster doctor` says of locks of other sessions, of connections, and of the clock of a node."""

import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import psycopg2
import pytest
from sqlalchemy import make_url

from muster.settings import psql_url
from tests.support.fake_node import FakeNode
from tests.support.http_client import Json
from tests.support.muster_command import Muster


def findings(muster: Muster, *arguments: str) -> dict[str, Json]:
    """Return each check's result."""
    return {each["check"]: each for each in muster("doctor", *arguments, "--json").json["checks"]}


def test_doctor_names_the_session_that_locks_a_table_and_does_not_wait_for_it(
    bare_muster: Muster, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MUSTER_DATABASE_URL", database_url)
    with closing(psycopg2.connect(psql_url(database_url), application_name="migration")) as locking:
        locking.cursor().execute("LOCK TABLE groups")
        blocking = f"process {locking.info.backend_pid} (migration) of muster"
        with closing(psycopg2.connect(psql_url(database_url))) as waiting, ThreadPoolExecutor(1) as executor:
            done = executor.submit(waiting.cursor().execute, "SELECT FROM groups")
            found = findings(bare_muster)
            locking.rollback()
            done.result()
    assert (found["locks"]["status"], found["locks"]["message"]) == ("warning", f"others wait for locks of {blocking}")
    assert found["offsets"]["message"] == "canceling statement due to lock timeout"
    assert "MusterDatabaseWritesSlow" in found["offsets"]["advice"]


CLIENTS = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'"
"""The connections of clients; the server has processes of its own."""


def test_doctor_counts_the_connections_that_clients_use(
    bare_muster: Muster, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MUSTER_DATABASE_URL", database_url)
    with closing(psycopg2.connect(psql_url(database_url))) as connection, connection.cursor() as cursor:
        cursor.execute(CLIENTS)
        ((clients,),) = cursor.fetchall()
        connection.rollback()
        found = findings(bare_muster)["Postgres"]
    assert f"; {clients + 1} of " in found["message"]  # with its own


def test_connections_that_are_used_up_are_no_server_that_is_to_be_started(
    bare_muster: Muster, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(psycopg2.connect(psql_url(database_url))) as connection:
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute("CREATE ROLE crowded LOGIN PASSWORD 'x' CONNECTION LIMIT 0")
            try:
                url = make_url(database_url).set(username="crowded", password="x")
                monkeypatch.setenv("MUSTER_DATABASE_URL", url.render_as_string(hide_password=False))
                found = findings(bare_muster)["Postgres"]
                refusal = bare_muster.refused(3, "sql", "SELECT 1")
            finally:
                cursor.execute("DROP ROLE crowded")
    advice = "raise its max_connections or the limit of the role, or find in pg_stat_activity who has them"
    assert (found["status"], found["advice"]) == ("error", advice)
    assert found["message"].endswith('too many connections for role "crowded"')
    assert refusal.endswith(f'too many connections for role "crowded"; {advice}.')


@pytest.mark.parametrize(
    ("ahead_s", "verdict", "said"),
    [
        (0, "ok", "about 0 s ahead of|about [01] s behind"),
        (-10, "warning", "about 1[01] s behind"),
        (3600, "error", "about (3600|3599) s ahead of"),
    ],
)
def test_doctor_compares_the_clock_of_the_node(
    bare_muster: Muster, fake: FakeNode, ahead_s: int, verdict: str, said: str
) -> None:
    fake.says(200, {"is_ready": True, "reasons": []})
    fake.clock_ahead_s = ahead_s
    found = findings(bare_muster, "--url", fake.url)["node's clock"]
    assert found["status"] == verdict
    assert re.fullmatch(f"it is ({said}) this machine's", found["message"])
