"""Copy closed days to the archive, verify each copy, and propose to drop the day.

The steps of a day, and what a crash after each one leaves:

1. Postgres counts and sums the day's rows. Leaves nothing.
2. An older copy in this archive with that count and checksum is read back; if it is complete, it is reused. Leaves
   nothing.
3. The rows are written to a new directory. Leaves a directory that no table names, so it is never read.
4. Spark reads the files back, counts and sums them. Likewise.
5. The candidate is written, unless the run was decided meanwhile. The next attempt finds the copy in step 2.

If rows arrive between steps 1 and 4, or the day is dropped or restored meanwhile, the copy does not match: the job
reports the day, and the next run copies it again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from time import time_ns

import psycopg2.extensions as pg
from psycopg2.sql import Identifier
from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # comes without types
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spark_jobs.archive.checksums import Sum, sum_in_postgres, sum_in_spark
from spark_jobs.archive.days import (
    Copy,
    Day,
    closed_days,
    copies_of,
    history_tables,
    now_between_partition_moves,
    restored_since,
)
from spark_jobs.archive.files import file_count, path_of, read_day, read_files, write_day
from spark_jobs.arguments import JobArguments
from spark_jobs.database import Database, transaction
from spark_jobs.errors import JobError
from spark_jobs.history import DAY, instant
from spark_jobs.jdbc import range_predicates, shard_predicates
from spark_jobs.publish import PROPOSED, begin_run, count_shards, describe_run, new_attempt_id

KIND = "history_archive"
DAYS_MAX = 1_000
"""Maximum of days (over all tables) that one run copies, oldest first; the next run copies the rest."""


@dataclass(frozen=True, slots=True)
class Archived:
    """Result of a run: its status, its counts, and the days whose copy did not match."""

    status: str
    counts: dict[str, int]
    unverified: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Archive:
    """The connections, directory and run id of one archive run."""

    spark: SparkSession
    database: Database
    connection: pg.connection
    arguments: JobArguments
    shard_count: int


def archive_closed_days(
    spark: SparkSession, database: Database, connection: pg.connection, arguments: JobArguments
) -> Archived:
    """Copy every day older than `keep_days`, and propose to drop it.

    Raises:
        JobError: No archive is configured, or a table has a column whose type cannot be compared.
    """
    if not arguments.archive:
        raise JobError(
            "No archive is configured: set MUSTER_ARCHIVE_URI to a directory that every Spark worker reaches."
        )
    proposal = arguments.proposal(KIND)
    status, counts, began_at = begin_run(connection, proposal)
    if status != PROPOSED:
        return Archived(status, counts, ())
    archive = Archive(spark, database, connection, arguments, count_shards(connection))
    tables = tuple(history_tables(connection).values())
    everything = closed_days(connection, tables, date.max)
    sums = {day: _propose_copy(archive, day) for day in _due(archive, everything)[:DAYS_MAX]}
    _delete_older_copies(connection, arguments.run_id, began_at)
    whole = [found for found in sums.values() if found is not None]
    unverified = tuple(str(day) for day, found in sums.items() if found is None)
    counts = {
        "candidates": len(whole),
        "of": len(everything),
        "rows": sum(found.row_count for found in whole),
        "unverified": len(unverified),
    }
    status, counts = describe_run(connection, proposal, counts)
    return Archived(status, counts, unverified)


def _due(archive: Archive, everything: Sequence[Day]) -> list[Day]:
    """Return the days to archive; a restored day is kept for `keep_days` again."""
    kept = timedelta(days=archive.arguments.keep_days)
    before = (archive.arguments.as_of - kept).date()
    lately = restored_since(archive.connection, archive.arguments.as_of - kept)
    return [day for day in everything if day.day < before and (day.table.name, day.day) not in lately]


def _propose_copy(archive: Archive, day: Day) -> Sum | None:
    """Return the day's candidate; None if the copy does not match the rows counted before."""
    began_at = now_between_partition_moves(archive.connection)
    expected = sum_in_postgres(archive.connection, Identifier(day.source), day.table.columns, day.where)
    path = _older_copy(archive, day, expected) or _new_copy(archive, day, expected)
    if path is None or not _record_copy(archive, day, Copy(day.day, path, expected), began_at):
        return None
    return expected


def _older_copy(archive: Archive, day: Day, expected: Sum) -> str | None:
    root = f"{archive.arguments.archive.rstrip('/')}/"  # Nodes find no copy elsewhere.
    for copy in copies_of(archive.connection, day):
        is_here = copy.path.startswith(root)
        if is_here and copy.sum == expected and _is_intact(archive, day, copy.path, expected):
            return copy.path
    return None


def _is_intact(archive: Archive, day: Day, path: str, expected: Sum) -> bool:
    try:
        return _read_back(archive, day, path) == expected
    except (PySparkException, Py4JError):
        return False  # The files were moved or damaged: write a new copy.


def _new_copy(archive: Archive, day: Day, expected: Sum) -> str | None:
    path = path_of(archive.arguments.archive, day, new_attempt_id(time_ns() // 1_000_000))
    files = file_count(expected.row_count, archive.arguments.read_partitions)
    predicates = _parallel_reads(archive, day, files)
    where = day.where.as_string(archive.connection)
    write_day(read_day(archive.spark, archive.database, where, day, predicates), day, path)
    return path if _read_back(archive, day, path) == expected else None


def _parallel_reads(archive: Archive, day: Day, count: int) -> Sequence[str]:
    """Return one SQL condition per read: ranges of shards, or of the day where rows belong to no group."""
    if any(column.name == "shard_id" for column in day.table.columns):
        return shard_predicates(archive.shard_count, count)
    start = datetime.combine(day.day, time.min, UTC)
    return range_predicates(day.table.at, [instant(start + DAY * read / count) for read in range(1, count)])


def _read_back(archive: Archive, day: Day, path: str) -> Sum:
    return sum_in_spark(read_files(archive.spark, day.table.columns, [path]), day.table.columns)


def _record_copy(archive: Archive, day: Day, copy: Copy, began_at: datetime) -> bool:
    """Write the day's candidate unless the run was decided; False: the day was dropped or restored meanwhile."""
    named = (archive.arguments.run_id, day.table.name, day.day, day.source)
    claimed = (copy.path, copy.sum.row_count, copy.sum.checksum, began_at)
    with transaction(archive.connection) as cursor:
        cursor.execute("SELECT propose_partition_drop(%s, %s, %s, %s, %s, %s, %s, %s)", (*named, *claimed))
        (is_proposed,) = cursor.fetchone() or (False,)
        return bool(is_proposed)


def _delete_older_copies(connection: pg.connection, run_id: str, began_at: datetime) -> None:
    """Delete the candidates of earlier attempts that this one did not find again."""
    with transaction(connection) as cursor:
        cursor.execute("SELECT withdraw_partition_drops(%s, %s)", (run_id, began_at))
