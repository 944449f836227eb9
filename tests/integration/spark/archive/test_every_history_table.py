"""A day of every history table can be archived and restored, whatever its columns, also by several reads."""

from datetime import timedelta

import psycopg2.extensions as pg
import pytest
from psycopg2.sql import SQL, Identifier, Literal
from pyspark.sql import SparkSession

from coordinator_core.state_store.tables import HISTORY_TABLES
from spark_jobs.archive import files
from spark_jobs.archive.archive_copy import archive_closed_days
from spark_jobs.archive.archive_restore import restore_days
from spark_jobs.archive.days import HistoryTable, history_tables
from spark_jobs.arguments import JobArguments
from spark_jobs.database import Database
from tests.integration.spark.archive.old_days import OLD, apply, candidates, in_postgres, outcomes

ROWS = 4
VALUES = {
    "text": "chr(10) || 'ünï' || n",
    "uuid": "gen_random_uuid()",
    "smallint": "n * 16",
    "integer": "2147483647 - n",
    "bigint": "9223372036854775807 - n",
    "boolean": "n % 2 = 0",
    "integer[]": "ARRAY[n, -n]",
    "timestamp with time zone": "least({day} + n * interval '8 hours', {day} + interval '86399.999999 seconds')",
}
"""Type of a column → its value in row n; instants are spread over the whole day."""


def add_rows(connection: pg.connection, table: HistoryTable) -> None:
    """Create the partition of OLD with rows in which no column is NULL."""
    day = SQL("timestamptz {}").format(Literal(f"{OLD} 00:00:00+00"))
    values = (SQL(VALUES[column.type]).format(day=day) for column in table.columns)
    with connection, connection.cursor() as cursor:
        cursor.execute(
            SQL(
                "CREATE TABLE {partition} PARTITION OF {table} FOR VALUES FROM ({first}) TO ({end});"
                " INSERT INTO {table} ({columns}) SELECT {values} FROM generate_series(0, {rows} - 1) AS n"
            ).format(
                partition=Identifier(f"{table.name}_p{OLD:%Y%m%d}"),
                table=Identifier(table.name),
                first=Literal(f"{OLD} 00:00:00+00"),
                end=Literal(f"{OLD + timedelta(days=1)} 00:00:00+00"),
                columns=SQL(", ").join(Identifier(column.name) for column in table.columns),
                values=SQL(", ").join(values),
                rows=Literal(ROWS),
            )
        )


def test_a_day_of_every_history_table_is_archived_and_restored(
    spark: SparkSession,
    database: Database,
    connection: pg.connection,
    arguments: JobArguments,
    database_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(files, "ROWS_A_FILE", 1)
    for described in history_tables(connection).values():
        add_rows(connection, described)
    before = {table: in_postgres(connection, table) for table in HISTORY_TABLES}
    archived = archive_closed_days(spark, database, connection, arguments)
    assert archived.unverified == ()
    assert candidates(connection) == [(table, OLD, f"{table}_p{OLD:%Y%m%d}", ROWS) for table in sorted(HISTORY_TABLES)]
    apply(database_url)
    assert outcomes(connection) == {(table, OLD): "dropped" for table in HISTORY_TABLES}
    assert {in_postgres(connection, table).row_count for table in HISTORY_TABLES} == {0}
    for table in HISTORY_TABLES:
        assert restore_days(spark, database, connection, table, OLD, OLD, "operator") == {OLD: ROWS}
    assert {table: in_postgres(connection, table) for table in HISTORY_TABLES} == before
