"""Restore archived days to Postgres, each day completely or not at all.

This changes live tables, so an operator runs it as the role that owns them. The steps of a day, and what a crash after
each one leaves:

1. Every copy is read and verified against its recorded checksum, in the columns that the table had then. Leaves
   nothing.
2. The rows are written to a separate table; columns added since have their defaults, as in rows that were not archived.
   The next attempt recreates it. From here on the copies' rows in
   `archived_partitions` are locked, which blocks other restores of the day; the lock ends with its connection.
3. Postgres counts and sums that table; the result must equal the files'. Likewise.
4. In one transaction, the table becomes the day's partition, including late rows; `restored_at` is set and a change
   recorded. The day is restored. If late rows were archived since step 1, nothing is.
"""

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import date, timedelta
from functools import reduce
from operator import add
from typing import Final

import psycopg2
import psycopg2.extensions as pg
from psycopg2.sql import SQL, Identifier, Literal
from pyspark.sql import DataFrame, SparkSession

from spark_jobs.archive.checksums import sum_in_postgres, sum_in_spark
from spark_jobs.archive.days import Copy, HistoryTable, archived_copies, history_table
from spark_jobs.archive.files import copied_columns, read_copies
from spark_jobs.database import Database, transaction
from spark_jobs.errors import JobError
from spark_jobs.jdbc import WRITE_BATCH_ROWS

LOCK_TIMEOUT_MS: Final = 500
ATTACH_TRIES: Final = 120
ATTACH_RETRY_S: Final = 2.0
"""How often, and after which pause, attaching is tried while a dump, say, reads the table: for five minutes."""
WRITERS: Final = 4


@dataclass(frozen=True, slots=True)
class Restoring:
    """The connections and inputs of a restore."""

    spark: SparkSession
    database: Database
    connection: pg.connection
    table: HistoryTable
    actor: str | None
    archive: str


def restore_days(
    spark: SparkSession,
    database: Database,
    connection: pg.connection,
    name: str,
    first: date,
    last: date,
    actor: str | None,
    *,
    archive: str = "",
) -> dict[date, int]:
    """Restore a table's days, from the first to the last; return the number of restored rows by day.

    Args:
        spark: The session that reads the files.
        database: The database to restore to.
        connection: A connection of the tables' owner; for a dry run, of any role that reads them.
        name: The table.
        first: The first day.
        last: The last day.
        actor: The actor recorded in `changes`; None for a dry run, which only compares the files.
        archive: The archive's directory, if it was moved since the days were written.

    Raises:
        JobError: There is no such history table, or a copy does not match; earlier days are restored already.
    """
    table = history_table(connection, name)
    restoring = Restoring(spark, database, connection, table, actor, archive)
    by_day: dict[date, list[Copy]] = {}
    for copy in archived_copies(connection, name, first, last + timedelta(days=1)):
        by_day.setdefault(copy.day, []).append(copy)
    return {day: _restore(restoring, day, copies) for day, copies in by_day.items()}


def _restore(restoring: Restoring, day: date, copies: list[Copy]) -> int:
    frames = []
    for copy in copies:
        columns = copied_columns(restoring.spark, restoring.table.columns, copy.path, restoring.archive)
        frames.append(_read(restoring, copy).select(*(column.name for column in columns)))
        if sum_in_spark(frames[-1], columns) != copy.sum:
            raise JobError(
                f"The files in {copy.path} do not match their recorded checksum; nothing of {day} was restored."
            )
    if restoring.actor is None:
        return sum(copy.sum.row_count for copy in copies)
    beside = f"{restoring.table.name}_r{day:%Y%m%d}"
    in_every = [column for column in restoring.table.columns if all(column.name in frame.columns for frame in frames)]
    with _alone(restoring, day) as cursor:
        _write_with_extra_rows(restoring, beside, frames)
        found = sum_in_postgres(restoring.connection, Identifier(beside), in_every)
        # A recorded checksum is of all columns of its copy.
        expected = (
            copy.sum if len(frame.columns) == len(in_every) else sum_in_spark(frame, in_every)
            for copy, frame in zip(copies, frames, strict=True)
        )
        if found != reduce(add, expected):
            raise JobError(f"The rows in {beside} do not match the files; nothing of {day} was restored.")
        _attach_when_free(cursor, restoring, day, beside, copies, found.row_count)
    return found.row_count


@contextmanager
def _alone(restoring: Restoring, day: date) -> Iterator[pg.cursor]:
    """Lock the day's rows in `archived_partitions`, yield a cursor of the locking transaction, and commit at the end.

    The lock ends with its connection, also after a crash. Read-only roles cannot take it.

    Raises:
        JobError: Another restore of the day is running, or ended since the day's copies were listed.
    """
    name = restoring.table.name
    with closing(restoring.database.connect()) as connection, transaction(connection) as cursor:
        try:
            cursor.execute(_LOCK_COPIES, (name, day))
        except psycopg2.errors.LockNotAvailable as failure:
            raise JobError(f"Another restore of {day} of {name} is running.") from failure
        if cursor.rowcount == 0:
            raise JobError(f"{day} of {name} was restored meanwhile.")
        yield cursor


_LOCK_COPIES = """
SELECT FROM archived_partitions WHERE table_name = %s AND day = %s AND restored_at IS NULL FOR UPDATE NOWAIT
"""


def _read(restoring: Restoring, copy: Copy) -> DataFrame:
    return read_copies(restoring.spark, restoring.table.columns, [copy.path], restoring.archive)


def _write_with_extra_rows(restoring: Restoring, beside: str, frames: list[DataFrame]) -> None:
    """Write the rows of each copy, in its own columns."""
    make = SQL("DROP TABLE IF EXISTS {beside}; CREATE TABLE {beside} (LIKE {table} INCLUDING ALL)")
    with transaction(restoring.connection) as cursor:
        cursor.execute(make.format(beside=Identifier(beside), table=Identifier(restoring.table.name)))
    properties = {
        **restoring.database.jdbc_properties(),
        "batchsize": WRITE_BATCH_ROWS,
        "numPartitions": str(WRITERS),
        "reWriteBatchedInserts": "true",
        "stringtype": "unspecified",
    }
    for frame in frames:
        frame.write.jdbc(restoring.database.jdbc_url, beside, mode="append", properties=properties)


def _attach_when_free(
    cursor: pg.cursor, restoring: Restoring, day: date, beside: str, copies: list[Copy], row_count: int
) -> None:
    """Attach the partition as soon as no long transaction uses the table; between the tries nothing waits for this.

    Raises:
        JobError: A transaction has used the table in every try, or a copy of the day was added.
    """
    for _ in range(ATTACH_TRIES):
        cursor.execute("SAVEPOINT not_attached")
        try:
            _require_no_other_copies(cursor, restoring, day, copies)
            _attach(cursor, restoring, day, beside, row_count)
        except psycopg2.errors.LockNotAvailable:
            cursor.execute("ROLLBACK TO SAVEPOINT not_attached")
            time.sleep(ATTACH_RETRY_S)
        else:
            return
    what = f"Long transactions use {restoring.table.name}; nothing of {day} was restored"
    raise JobError(f"{what}. Run it again when they have ended.")


def _require_no_other_copies(cursor: pg.cursor, restoring: Restoring, day: date, copies: list[Copy]) -> None:
    """Block drops until the end of the transaction.

    Raises:
        JobError: A copy of the day was added since they were listed.
    """
    cursor.execute("LOCK TABLE archived_partitions IN SHARE ROW EXCLUSIVE MODE")
    present = archived_copies(restoring.connection, restoring.table.name, day, day + timedelta(days=1))
    if present != copies:
        what = f"More rows of {day} of {restoring.table.name} were archived meanwhile"
        raise JobError(f"{what}; nothing of that day was restored. Run it again.")


_ATTACH = """
SET LOCAL lock_timeout = {timeout};
WITH late AS (DELETE FROM {default} WHERE {of_day} RETURNING *) INSERT INTO {beside} SELECT * FROM late;
ALTER TABLE {beside} RENAME TO {partition};
ALTER TABLE {table} ATTACH PARTITION {partition} FOR VALUES FROM ({first}) TO ({end});
UPDATE archived_partitions SET restored_at = clock_timestamp()
WHERE table_name = {name} AND day = {day} AND restored_at IS NULL;
INSERT INTO changes (change_id, at, actor, action, after)
VALUES (gen_random_uuid(), clock_timestamp(), {actor}, 'restore_history_partition',
    jsonb_build_object('table', {name}, 'day', {day}, 'rows', {rows}));
"""


def _attach(cursor: pg.cursor, restoring: Restoring, day: date, beside: str, row_count: int) -> None:
    table, end = restoring.table, day + timedelta(days=1)
    statement = SQL(_ATTACH).format(
        timeout=Literal(LOCK_TIMEOUT_MS),
        default=Identifier(table.default),
        of_day=table.of_days(day, end),
        beside=Identifier(beside),
        partition=Identifier(f"{table.name}_p{day:%Y%m%d}"),
        table=Identifier(table.name),
        first=Literal(f"{day} 00:00:00+00"),
        end=Literal(f"{end} 00:00:00+00"),
        name=Literal(table.name),
        day=Literal(day.isoformat()),
        actor=Literal(restoring.actor),
        rows=Literal(row_count),
    )
    cursor.execute(statement)
