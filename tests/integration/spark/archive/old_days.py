"""History old enough to archive, and queries for the archive's tests."""

from contextlib import closing
from datetime import UTC, date, datetime, timedelta
from typing import Any

import psycopg2
import psycopg2.extensions as pg
from psycopg2.sql import Identifier
from pyspark.sql import SparkSession

from coordinator_core.runtime.archive_files import ArchiveFiles
from coordinator_core.state_store.postgres import PostgresStore
from coordinator_core.state_store.rows import ChangeRow
from muster.settings import psql_url
from spark_jobs.archive.checksums import Sum, sum_in_postgres, sum_in_spark
from spark_jobs.archive.days import history_tables
from spark_jobs.database import Database
from spark_jobs.history import History, TablePeriod

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)

RUN_ID = "0b5f4f8e-57a5-5dd8-a2f3-6a5f0c9a0b1d"

NEXT_RUN_ID = "1b5f4f8e-57a5-5dd8-a2f3-6a5f0c9a0b1d"

CHANGE_ID = "2b5f4f8e-57a5-5dd8-a2f3-6a5f0c9a0b1d"

OLD, OLDER, KEPT = date(2026, 10, 2), date(2026, 10, 1), date(2026, 11, 20)

LATE = date(2026, 9, 15)

ROWS = {
    "offset_history": """
INSERT INTO offset_history (group_id, shard_id, topic, partition, at, committed_offset, log_end_offset, member_id)
SELECT 'ünï ' || chr(10) || n, n % 50, 'orders', n,
    timestamptz '{day} 00:00:00+00' + n * interval '1 second 1 microsecond', n * 1000000007::bigint,
    nullif(n % 3, 0), CASE WHEN n % 2 = 0 THEN '' ELSE 'm' END
FROM generate_series(0, 99) AS n
""",
    "partition_ownership": """
INSERT INTO partition_ownership (group_id, shard_id, group_created_at, rebalance_id, generation, member_id,
    topic, partitions,
    valid_from, valid_to)
SELECT 'g', 7, timestamptz '{day} 01:00:00+00', gen_random_uuid(), n, 'm', 'orders', ARRAY[n, n + 1], timestamptz
    '{day} 01:00:00+00', timestamptz '{day} 02:00:00+00'
FROM generate_series(1, 5) AS n
""",
}
"""Table → what stores its rows of a day."""

STRAY = """
INSERT INTO group_transitions (group_id, shard_id, group_created_at, at, generation, to_state, reason)
VALUES ('late', 3, now(), timestamptz '{day} 23:30:00+00', 1, 'Empty', 'why')
"""

OTHERS = tuple(ROWS)

TABLES = (*OTHERS, "group_transitions")


def rows(connection: pg.connection, statement: str) -> list[tuple[Any, ...]]:
    with connection, connection.cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchall() if cursor.description else []


def add_day(connection: pg.connection, table: str, day: date) -> None:
    bounds = f"FROM ('{day} 00:00:00+00') TO ('{day + timedelta(days=1)} 00:00:00+00')"
    rows(connection, f"CREATE TABLE {table}_p{day:%Y%m%d} PARTITION OF {table} FOR VALUES {bounds}")
    rows(connection, ROWS[table].format(day=day))


def add_old_days(connection: pg.connection) -> None:
    """Store two days that are old enough, one that is kept, and a row that came too late for its partition."""
    for day in (OLD, KEPT):
        for table in OTHERS:
            add_day(connection, table, day)
    add_day(connection, "offset_history", OLDER)
    rows(connection, STRAY.format(day=LATE))


EXPECTED = [
    ("group_transitions", LATE, "group_transitions_default", 1),
    ("offset_history", OLDER, "offset_history_p20261001", 100),
    ("offset_history", OLD, "offset_history_p20261002", 100),
    ("partition_ownership", OLD, "partition_ownership_p20261002", 5),
]


def candidates(connection: pg.connection, run_id: str = RUN_ID) -> list[tuple[Any, ...]]:
    return rows(
        connection,
        "SELECT table_name, day, source, row_count FROM archive_candidates"  # noqa: S608 - a run of the test's own
        f" WHERE run_id = '{run_id}' ORDER BY table_name, day",
    )


def outcomes(connection: pg.connection) -> dict[tuple[str, date], str]:
    found = rows(connection, "SELECT table_name, day, outcome FROM archive_candidates")
    return {(table, day): outcome for table, day, outcome in found}


def archive_of(database_url: str) -> str:
    """Return the directory of the test's archive."""
    with closing(psycopg2.connect(psql_url(database_url))) as connection:
        ((path,),) = rows(connection, "SELECT path FROM archive_candidates LIMIT 1") or [("file:///nowhere/a/b/c",)]
    return str(path).rsplit("/", 3)[0]


def apply(database_url: str, run_id: str = RUN_ID) -> None:
    """Apply a run as nodes do."""
    with closing(PostgresStore(database_url)) as store:
        change_id = CHANGE_ID if run_id == RUN_ID else NEXT_RUN_ID
        store.begin_apply(run_id, ChangeRow(change_id, 0, "operator", "apply_run", None, None, None, "why"))
        archive = ArchiveFiles(archive_of(database_url), is_checked=True)
        while store.drop_archived(archive.has) is not None:
            pass
        assert run_id in store.finish_runs()


def everything(spark: SparkSession, database: Database, connection: pg.connection, table: str) -> Sum:
    """Count and sum the rows of a table that a report reads, in Postgres and in the archive."""
    start, end = datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)
    history = History(spark, database, connection, archive="file:///nowhere")
    found = history.rows(TablePeriod(table, start, end))
    return sum_in_spark(found, history_tables(connection)[table].columns)


def in_postgres(connection: pg.connection, table: str) -> Sum:
    return sum_in_postgres(connection, Identifier(table), history_tables(connection)[table].columns)


def in_both_places(connection: pg.connection, table: str) -> Sum:
    """Count and sum the rows of a table, in the archive by the checksums that were recorded."""
    archived = f"SELECT row_count, checksum FROM archived_partitions WHERE table_name = '{table}'"  # noqa: S608 - ours
    return sum((Sum(*row) for row in rows(connection, archived)), start=in_postgres(connection, table))


class Killed(BaseException):
    """Simulates a kill: no code catches it."""
