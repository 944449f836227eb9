"""`muster sql`: what it prints, and that it is read-only unless it may write; psql in its place."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name

from tests.support.http_client import Group
from tests.support.muster_command import Muster
from tests.support.waiting import PATIENCE_S, poll_until


def test_query_result_is_printed_as_table_or_json(muster: Muster, database_in_use: str) -> None:
    assert database_in_use
    query = "SELECT 1 AS one, NULL AS nothing, 'a b' AS text, now() > '2020-01-01' AS is_late"

    assert muster.ok("sql", query).out.splitlines() == [
        "one  nothing  text  is_late",
        "  1  -        a b   True",
        "(1 row)",
    ]
    assert muster.ok("sql", query, "--json").json == {
        "rows": [{"one": 1, "nothing": None, "text": "a b", "is_late": True}]
    }
    assert muster.ok("sql", "SELECT '2026-01-02'::timestamptz AT TIME ZONE 'UTC' AS at", "--json").json["rows"]


def test_bytes_are_written_as_postgres_writes_them(muster: Muster, database_in_use: str) -> None:
    assert database_in_use
    query = r"SELECT '\x00ff'::bytea AS one, ARRAY['\x01', '\x', NULL]::bytea[] AS many, '{a,b}'::text[] AS words"

    assert muster.ok("sql", query).out.splitlines()[1] == r"\x00ff  [\x01, \x, -]  [a, b]"
    assert muster.ok("sql", query, "--json").json == {
        "rows": [{"one": r"\x00ff", "many": [r"\x01", r"\x", None], "words": ["a", "b"]}]
    }


@pytest.mark.parametrize("kind", ["timestamptz", "timestamp", "date"])
def test_infinite_times_are_written_as_postgres_writes_them(muster: Muster, database_in_use: str, kind: str) -> None:
    assert database_in_use
    query = f"SELECT 'infinity'::{kind} AS last, ARRAY['-infinity', '2026-01-02']::{kind}[] AS many"

    last, (first, finite) = muster.ok("sql", query, "--json").json["rows"][0].values()
    assert (last, first, finite[:10]) == ("infinity", "-infinity", "2026-01-02")
    assert muster.ok("sql", query).out.splitlines()[1].startswith("infinity  [-infinity, 2026-01-02")


def test_bytes_in_tables_are_printed_as_json(muster: Muster, group: Group, database_in_use: str) -> None:
    assert database_in_use
    group.join(client_id="one-of-bytes")

    (member,) = muster.ok("sql", "SELECT * FROM members WHERE client_id = 'one-of-bytes'", "--json").json["rows"]

    assert all(each.startswith(r"\x") for each in member["protocol_metadata"])
    assert member["protocol_metadata"]


@pytest.mark.parametrize(
    "value", ["'12:30'::time", "'1 day'::interval", "1.50", "'[1,3)'::int4range", "'{2026-01-02}'::date[]"]
)
def test_every_kind_of_value_has_its_json(muster: Muster, database_in_use: str, value: str) -> None:
    assert database_in_use
    (row,) = muster.ok("sql", f"SELECT {value} AS it", "--json").json["rows"]

    assert all(isinstance(each, str) for each in (row["it"] if isinstance(row["it"], list) else [row["it"]]))


@pytest.mark.parametrize("value", ["'NaN'::float8", "'{-Infinity,1.5}'::float8[]", "'Infinity'::real"])
def test_numbers_that_json_lacks_are_text(muster: Muster, database_in_use: str, value: str) -> None:
    assert database_in_use
    said = muster.ok("sql", f"SELECT {value} AS it", "--json").out

    assert '"NaN"' in said or '"-Infinity"' in said or '"Infinity"' in said
    json.loads(said, parse_constant=lambda constant: pytest.fail(f"{constant} is not JSON"))


def test_columns_of_one_name_are_refused_as_json(muster: Muster, database_in_use: str) -> None:
    assert database_in_use
    change = "INSERT INTO topics (topic, partitions) VALUES ('twice', 1) RETURNING topic, partitions AS topic"

    said = "Two columns have the name topic, of which JSON would have one; name them apart with AS."
    assert muster.refused(1, "sql", change, "--write", "--json") == said
    assert muster.ok("sql", "SELECT count(*) FROM topics WHERE topic = 'twice'").rows[0] == ["0"]
    assert muster.ok("sql", "SELECT 1 AS one, 2 AS one").rows[0] == ["1", "2"]


def test_value_that_python_cannot_hold_is_reported_in_one_sentence(muster: Muster, database_in_use: str) -> None:
    assert database_in_use
    said = muster.refused(1, "sql", "SELECT '20000-01-01'::timestamptz")

    assert said == "A value cannot be shown (year 20000 is out of range); cast it to text."


def test_sql_is_read_only_unless_write_is_given(muster: Muster, database_in_use: str) -> None:
    assert database_in_use
    change = "INSERT INTO topics (topic, partitions, log_start_offset) VALUES ('by-hand', 1, 0)"

    assert muster.refused(1, "sql", change).endswith("; --write allows it.")
    assert muster.ok("sql", change, "--write").out == "1 row changed.\n"
    assert muster.ok("sql", "SELECT partitions FROM topics WHERE topic = 'by-hand'").rows[0] == ["1"]
    assert muster.ok("sql", "DELETE FROM topics WHERE false", "--write", "--json").json == {"rows": [], "changed": 0}
    assert "syntax error" in muster.refused(1, "sql", "SELEKT 1")


@pytest.mark.parametrize(
    "query",
    [
        "BEGIN READ WRITE; DELETE FROM topics",
        "SET TRANSACTION READ WRITE; DELETE FROM topics",
        "SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE; COMMIT; DELETE FROM topics",
        "COMMIT; BEGIN READ WRITE; DELETE FROM topics; COMMIT",
        "SELECT 1; DELETE FROM topics",
        "SELECT 1) TO STDOUT; DELETE FROM topics",
        "DO $$ BEGIN DELETE FROM topics; END $$",
        "COPY (SELECT 1) TO PROGRAM 'true'",
        "WITH gone AS (DELETE FROM topics RETURNING topic) SELECT * FROM gone",
        "DELETE FROM topics RETURNING topic",
        "SELECT set_config('transaction_read_only', 'off', true)",
        "SELECT lo_creat(-1)",
        "SET ROLE postgres",
    ],
)
def test_sql_without_write_changes_nothing_even_as_the_owner(
    muster: Muster, database_in_use: str, rows: PsycopgConnection, query: str
) -> None:
    assert database_in_use
    with rows.cursor() as cursor:
        cursor.execute("INSERT INTO topics (topic, partitions) VALUES ('to-keep', 1) ON CONFLICT DO NOTHING")

        muster.refused(1, "sql", query)

        cursor.execute("SELECT FROM topics WHERE topic = 'to-keep'")
        assert cursor.rowcount == 1


@pytest.mark.parametrize(
    "query", ["SHOW server_version_num", "EXPLAIN SELECT 1", "VALUES (1)", "TABLE versions;", "SELECT '%'"]
)
def test_sql_takes_every_statement_that_reads(muster: Muster, database_in_use: str, query: str) -> None:
    assert database_in_use
    assert muster.ok("sql", query, "--json").json["rows"]


def test_unreachable_database_is_reported_without_password(
    bare_muster: Muster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MUSTER_DATABASE_URL", "postgresql://u:hunter2@127.0.0.1:1/m")

    said = bare_muster.refused(3, "sql", "SELECT 1")

    assert said.startswith("The database does not answer: ")
    assert said.endswith("; start it, or correct MUSTER_DATABASE_URL.")
    assert "hunter2" not in said


def test_interrupted_query_is_cancelled(database_in_use: str, rows: PsycopgConnection) -> None:
    def is_sleeping() -> bool:
        with rows.cursor() as cursor:
            cursor.execute(
                "SELECT FROM pg_stat_activity WHERE application_name = 'muster-sql' AND wait_event = 'PgSleep'"
            )
            return cursor.rowcount == 1

    with subprocess.Popen(
        [str(Path(sys.executable).with_name("muster")), "sql", "SELECT pg_sleep(600)"],
        env={**os.environ, "MUSTER_DATABASE_URL": database_in_use},
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        poll_until(is_sleeping)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, said) == (130, "")
    poll_until(lambda: not is_sleeping())


def test_without_sql_psql_is_opened_on_the_database_in_use(muster: Muster, database_in_use: str) -> None:
    assert muster is not None
    ran = subprocess.run(
        [Path(sys.executable).with_name("muster"), "sql"],
        env={**os.environ, "MUSTER_DATABASE_URL": database_in_use},
        input="SELECT count(*) + 41 AS answer FROM shard_leases WHERE shard_id = 0;\n",
        capture_output=True,
        text=True,
        check=True,
    )

    assert "42" in ran.stdout


def test_password_of_a_key_is_on_no_command_line(tmp_path: Path) -> None:
    program = tmp_path / "psql"
    program.write_text('#!/bin/sh\necho "arguments: $*"\ncat "$PGSERVICEFILE"\n')
    program.chmod(0o755)
    url = "postgresql://u@127.0.0.1:1/m?sslmode=require&sslpassword=hunter2"
    ran = subprocess.run(
        [Path(sys.executable).with_name("muster"), "sql"],
        env={**os.environ, "MUSTER_DATABASE_URL": url, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )

    assert ran.stdout == "arguments: sslmode=require\n[muster]\nsslpassword=hunter2"


def test_psql_gets_options_with_spaces(database_url: str) -> None:
    ran = subprocess.run(
        [Path(sys.executable).with_name("muster"), "sql"],
        env={**os.environ, "MUSTER_DATABASE_URL": f"{database_url}?sslrootcert=/no such/ca.pem&sslpassword=x y"},
        input="SELECT 41 + 1 AS answer;\n",
        capture_output=True,
        text=True,
        check=False,
    )

    assert (ran.stderr, "42" in ran.stdout) == ("", True)


@pytest.mark.parametrize(("flags", "changed"), [((), 0), (("--write",), 1)], ids=["read-only", "writing"])
def test_psql_is_read_only_unless_write_is_given(
    muster: Muster, database_in_use: str, rows: PsycopgConnection, flags: tuple[str, ...], changed: int
) -> None:
    assert muster is not None
    ran = subprocess.run(
        [Path(sys.executable).with_name("muster"), "sql", *flags],
        env={**os.environ, "MUSTER_DATABASE_URL": database_in_use, "PGOPTIONS": "-c work_mem=1MB"},
        input="SHOW work_mem; INSERT INTO topics (topic, partitions) VALUES ('from-psql', 1);\n",
        capture_output=True,
        text=True,
        check=False,
    )

    assert "1MB" in ran.stdout
    assert ("read-only transaction" in ran.stderr) == (not changed)
    with rows.cursor() as cursor:
        cursor.execute("DELETE FROM topics WHERE topic = 'from-psql'")
        assert cursor.rowcount == changed
