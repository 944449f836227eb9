"""Write and read the Parquet files of a day.

Each attempt writes to a new directory, which is never written to again. So a directory that a table names is complete;
directories of killed attempts are named nowhere.
"""

import re
from collections.abc import Sequence
from typing import Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # comes without types
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from spark_jobs.archive.checksums import TypedColumn
from spark_jobs.archive.days import Day
from spark_jobs.database import Database
from spark_jobs.errors import JobError
from spark_jobs.jdbc import read_by_shard

ROWS_A_FILE: Final = 1_000_000
SORTED_BY: Final = ("group_id", "topic")
"""A file is sorted by the first of these columns that its table has: readers of one group skip most of the file."""
PARTS: Final = 3
"""Parts of a copy's path within the archive: table, day, attempt."""

INSTANTS_AS: Final = ("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
"""A timestamp type that other Parquet readers support, with Postgres' precision."""

SPARK_TYPES: Final = {
    "text": "string",
    "uuid": "string",
    "jsonb": "string",
    "smallint": "smallint",
    "integer": "int",
    "bigint": "bigint",
    "boolean": "boolean",
    "date": "date",
    "timestamp with time zone": "timestamp",
    "integer[]": "array<int>",
    "bigint[]": "array<bigint>",
    "text[]": "array<string>",
}


def path_of(archive: str, day: Day, attempt_id: str) -> str:
    """Return the directory of one attempt at a day."""
    return f"{archive.rstrip('/')}/{day.table.name}/day={day.day}/attempt={attempt_id}"


def file_count(row_count: int, most: int) -> int:
    """Return the number of files to write, which is the number of parallel reads; at most `most`."""
    return max(1, min(most, -(-row_count // ROWS_A_FILE)))


def read_day(spark: SparkSession, database: Database, where: str, day: Day, predicates: Sequence[str]) -> DataFrame:
    """Read a day's rows from Postgres, one partition a predicate; `where` is the day's condition as text."""
    columns = [column.name for column in day.table.columns]
    relation = f"(SELECT * FROM {day.source} WHERE {where}) AS day_of_history"  # noqa: S608 - names of the topic metadata
    return read_by_shard(spark, database, relation, columns, predicates)


def write_day(rows: DataFrame, day: Day, path: str) -> None:
    """Write a day's rows to a new directory, sorted as SORTED_BY says."""
    rows.sparkSession.conf.set(*INSTANTS_AS)
    first = next(name for name in SORTED_BY if name in rows.columns)
    rows.sortWithinPartitions(first, day.table.at).write.mode("error").parquet(path)


def read_files(spark: SparkSession, columns: Sequence[TypedColumn], paths: Sequence[str]) -> DataFrame:
    """Read directories as one DataFrame with the table's present columns; columns added later are NULL."""
    schema = ", ".join(f"`{column.name}` {SPARK_TYPES[column.type]}" for column in columns)
    return spark.read.schema(schema).parquet(*map(_as_glob, paths))


def read_copies(spark: SparkSession, columns: Sequence[TypedColumn], paths: Sequence[str], archive: str) -> DataFrame:
    """Read copies as `read_files` does, from where they were written or, if missing, from the archive's present place.

    Args:
        spark: The session.
        columns: The table's present columns.
        paths: The directories where the copies were written.
        archive: The archive's present directory; empty if not configured.

    Raises:
        JobError: A copy is at neither place, as seen by Spark's driver.
    """
    try:
        return read_files(spark, columns, paths)
    except (PySparkException, Py4JError):
        return read_files(spark, columns, [_find(spark, path, archive) for path in paths])


def copied_columns(spark: SparkSession, columns: Sequence[TypedColumn], path: str, archive: str) -> list[TypedColumn]:
    """Return the present columns that a copy contains; its checksum covers no others.

    A directory without files contains all of them.

    Raises:
        JobError: The copy cannot be found, as in `read_copies`.
    """
    place = _find(spark, path, archive)
    try:
        names = spark.read.parquet(_as_glob(place)).columns
    except (PySparkException, Py4JError):
        return list(columns)
    return [column for column in columns if column.name in names]


def _find(spark: SparkSession, path: str, archive: str) -> str:
    moved = "/".join([archive.rstrip("/"), *path.split("/")[-PARTS:]]) if archive else path
    for place in dict.fromkeys((path, moved)):
        try:
            spark.read.schema("nothing int").parquet(_as_glob(place))
        except (PySparkException, Py4JError):
            continue  # The directory does not exist, or this machine cannot read it.
        return place
    places = path if moved == path else f"{path}, nor at {moved}"
    raise JobError(f"The archive's files are not at {places}; set MUSTER_ARCHIVE_URI to where the archive is now.")


def _as_glob(path: str) -> str:
    """Return the glob pattern that matches a path only: Spark reads paths as patterns, and writes them as they are."""
    return re.sub(r"[\\{}\[\]*?]", r"\\\g<0>", path)
