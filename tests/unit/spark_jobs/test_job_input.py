"""Tests of a job's command line and database address, valid and invalid."""

from datetime import UTC, datetime, timedelta

import pytest
from psycopg2.extensions import parse_dsn

from spark_jobs.arguments import read_arguments
from spark_jobs.database import SERVER_TYPES, database_from_environment, parse_url
from spark_jobs.errors import JobError
from spark_jobs.jdbc import FETCH_ROWS, shard_predicates
from spark_jobs.jobs.offset_retention import JOB
from spark_jobs.proposal_job import run
from spark_jobs.submit import SPARK_CONF, job_arguments

RUN_ID = "0b5f4f8e-57a5-5dd8-a2f3-6a5f0c9a0b1d"
AS_OF = "2026-11-21T13:00:00+01:00"


def command_line(**changes: str) -> list[str]:
    given = {"run_id": RUN_ID, "as_of": AS_OF, "retention_ms": "5", "is_dry_run": "True", **changes}
    return job_arguments(**given)


def test_arguments_of_a_dag_are_parsed() -> None:
    arguments = read_arguments("job", command_line(interval_start="2026-11-21T11:50:00Z", interval_end=AS_OF))
    at = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
    assert (arguments.run_id, arguments.as_of, arguments.retention_ms) == (RUN_ID, at, 5)
    assert (arguments.interval_start, arguments.interval_end) == (at - timedelta(minutes=10), at)
    assert arguments.is_dry_run
    assert arguments.now_ms == 1_795_262_400_000


def test_a_run_by_hand_has_no_interval() -> None:
    arguments = read_arguments("job", command_line(is_dry_run="False"))
    assert (arguments.interval_start, arguments.interval_end, arguments.is_dry_run) == (None, None, False)
    assert arguments.proposal("kind").interval_end is None


def test_job_without_retention_keeps_offsets_forever() -> None:
    arguments = read_arguments("job", job_arguments(run_id=RUN_ID, as_of=AS_OF, is_dry_run=False))
    assert arguments.retention_ms == -1


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ({"run_id": "1"}, "'1' is not a UUID"),
        ({"as_of": "yesterday"}, "'yesterday' is not an instant"),
        ({"as_of": "2026-11-21T12:00:00"}, "has no offset from UTC"),
        ({"interval_end": "noon"}, "'noon' is not an instant"),
        ({"retention_ms": "-2"}, "'-2' is not a whole number from -1"),
        ({"retention_ms": "a week"}, "'a week' is not a whole number"),
        ({"is_dry_run": "perhaps"}, "'perhaps' is neither true nor false"),
        ({"share_from": "-1"}, "'-1' is not a whole number from 0"),
    ],
)
def test_invalid_argument_is_rejected_in_one_sentence(
    capsys: pytest.CaptureFixture[str], wrong: dict[str, str], complaint: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        read_arguments("job", command_line(**wrong))
    assert ended.value.code == 2
    assert complaint in capsys.readouterr().err.splitlines()[-1]


def test_a_database_is_named_for_jdbc_without_its_password() -> None:
    database = parse_url("postgresql+psycopg2://me%40here:p%2Fw@[::1]:6543/the%20db?sslmode=require&connect_timeout=5")
    assert database.jdbc_url == "jdbc:postgresql://[::1]:6543/the%20db?sslmode=require"
    assert database.jdbc_properties()["user"] == "me@here"
    assert database.jdbc_properties()["password"] == "p/w"
    assert "p/w" not in repr(database)


def test_without_a_password_jdbc_looks_for_it_where_libpq_does() -> None:
    """An empty one counts, so that `.pgpass` would not be read, as it is for the first connection of a job."""
    assert parse_url("postgresql://me@db-1/muster").jdbc_properties().keys().isdisjoint({"password"})
    assert parse_url("postgresql://db-1/muster").jdbc_properties().keys().isdisjoint({"user", "password"})


@pytest.mark.parametrize(
    ("address", "jdbc_url"),
    [
        ("db-1,db-2/muster?target_session_attrs=read-write", "db-1:5432,db-2:5432/muster?targetServerType=primary"),
        (
            "a:1,[::1]:2/muster?target_session_attrs=prefer-standby",
            "a:1,[::1]:2/muster?targetServerType=preferSecondary",
        ),
        ("/muster?host=db-1,db-2&port=5432,5433&sslmode=verify-full", "db-1:5432,db-2:5433/muster?sslmode=verify-full"),
        ("/muster?host=db-1,db-2&port=6543&target_session_attrs=any", "db-1:6543,db-2:6543/muster"),
        ("/muster?host=db-1&host=db-2&target_session_attrs=any", "db-1:5432,db-2:5432/muster"),
        ("/muster?host=db-1:5433&sslmode=require&host=db-2", "db-1:5433,db-2:5432/muster?sslmode=require"),
    ],
)
def test_several_hosts_are_named_for_jdbc(address: str, jdbc_url: str) -> None:
    assert parse_url(f"postgresql://me:secret@{address}").jdbc_url == f"jdbc:postgresql://{jdbc_url}"


@pytest.mark.parametrize("attributes", SERVER_TYPES)
def test_libpq_gets_the_address_as_it_was_given(attributes: str) -> None:
    given = parse_dsn(parse_url(f"postgresql://me:secret@a:1,b/db?target_session_attrs={attributes}")._dsn())
    assert (given["host"], given["port"], given["target_session_attrs"]) == ("a,b", "1,5432", attributes)


def test_connections_notice_that_the_host_of_the_database_is_gone() -> None:
    database = parse_url("postgresql://me:secret@a/db")
    given = parse_dsn(database._dsn())
    assert [given[f"keepalives_{name}"] for name in ("idle", "interval", "count")] == ["30", "10", "3"]
    assert database.jdbc_properties()["tcpKeepAlive"] == "true"


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("mysql://me:secret@host/db", "must have the form"),
        ("postgresql://me:secret@host", "must have the form"),
        ("postgresql://me:secret@/db", "names no host"),
        ("postgresql://me:secret@/db?host=/run/postgresql", "names no host"),
        ("postgresql://me:secret@a,b,c/db?port=1,2", "is not a valid URL"),
        ("postgresql://me:secret@host/db?no_option=1", "is not a valid URL"),
        ("postgresql://me:secret@host/db?target_session_attrs=master", "target_session_attrs"),
        ("postgresql://me:secret@host:port/db", "is not a valid URL"),
    ],
)
def test_an_address_that_spark_cannot_use_is_refused_without_showing_it(url: str, complaint: str) -> None:
    with pytest.raises(JobError, match=complaint) as refusal:
        parse_url(url, "MUSTER_DATABASE_URL")
    assert "secret" not in str(refusal.value)


def test_jobs_database_url_takes_precedence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUSTER_DATABASE_URL", "postgresql://node@host/db")
    assert database_from_environment().user == "node"
    monkeypatch.setenv("MUSTER_JOBS_DATABASE_URL", "postgresql://jobs@host/db")
    assert database_from_environment().user == "jobs"


def test_missing_database_url_is_reported_in_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("MUSTER_DATABASE_URL", raising=False)
    monkeypatch.delenv("MUSTER_JOBS_DATABASE_URL", raising=False)
    assert run(JOB, command_line()) == 1
    assert capsys.readouterr().err.startswith("offset_retention: No database is configured")


def test_unreachable_database_is_reported_in_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MUSTER_JOBS_DATABASE_URL", "postgresql://me:secret@127.0.0.1:1/db")
    assert run(JOB, command_line()) == 1
    error = capsys.readouterr().err
    assert error.startswith("offset_retention: Cannot connect to Postgres at 127.0.0.1:1/db")
    assert error.count("\n") == 1
    assert "secret" not in error


@pytest.mark.parametrize(("shards", "parts"), [(50, 8), (50, 1), (1, 8), (0, 8), (3, 3), (10_000, 7)])
def test_shard_ranges_cover_every_row_once(shards: int, parts: int) -> None:
    predicates = shard_predicates(shards, parts)
    assert len(predicates) == max(1, min(shards, parts))
    for shard_id in (-1, *range(shards), shards + 5):
        conditions = (predicate.replace("AND", "and").replace("true", "True") for predicate in predicates)
        assert sum(eval(condition, {"shard_id": shard_id}) for condition in conditions) == 1  # noqa: S307 - ours


def test_large_rows_that_two_reads_fetch_fit_into_half_of_the_memory() -> None:
    mib = int(SPARK_CONF["spark.driver.memory"].removesuffix("m"))
    row_bytes = 10_000 * len("12345,")  # An ownership of ten thousand partitions.
    assert 2 * int(FETCH_ROWS) * row_bytes <= mib * 2**20 // 2
