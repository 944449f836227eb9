"""A day's rows are written once into a directory of their own, which nobody ever writes to again.

So whoever reads a directory that is named in a table reads all of it, whatever is written or killed meanwhile. What a
killed attempt left is named nowhere.
"""

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
GROUP: Final = "group_id"
PARTS: Final = 3
"""Of a copy's path within the archive: its table, its day, its attempt."""

INSTANTS_AS: Final = ("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
"""What other readers of Parquet know an instant as; Postgres' own precision."""

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
    """Return the directory that one attempt at a day writes to."""
    return f"{archive.rstrip('/')}/{day.table.name}/day={day.day}/attempt={attempt_id}"


def file_count(row_count: int, most: int) -> int:
    """Return over how many files rows are spread, which are as many parallel reads; at most `most`."""
    return max(1, min(most, -(-row_count // ROWS_A_FILE)))


def read_day(spark: SparkSession, database: Database, where: str, day: Day, predicates: Sequence[str]) -> DataFrame:
    """Read a day's rows from Postgres, one partition a predicate; `where` is the day's condition as text."""
    columns = [column.name for column in day.table.columns]
    relation = f"(SELECT * FROM {day.source} WHERE {where}) AS day_of_history"  # noqa: S608 - names of the catalogue
    return read_by_shard(spark, database, relation, columns, predicates)


def write_day(rows: DataFrame, day: Day, path: str) -> None:
    """Write a day's rows into a new directory, by group, so that a reader of one group skips most of a file."""
    rows.sparkSession.conf.set(*INSTANTS_AS)
    rows.sortWithinPartitions(GROUP, day.table.at).write.mode("error").parquet(path)


def read_files(spark: SparkSession, columns: Sequence[TypedColumn], paths: Sequence[str]) -> DataFrame:
    """Read directories as one frame in the table's present columns; what was added since is NULL in older rows."""
    schema = ", ".join(f"`{column.name}` {SPARK_TYPES[column.type]}" for column in columns)
    return spark.read.schema(schema).parquet(*paths)


def read_copies(spark: SparkSession, columns: Sequence[TypedColumn], paths: Sequence[str], archive: str) -> DataFrame:
    """Read copies as `read_files` does, be they where they were written, or where the archive was moved since.

    Args:
        spark: Reads.
        columns: The table's present columns.
        paths: Where the copies were written.
        archive: The archive as it is named now; empty where it is not.

    Raises:
        JobError: One of them is at neither place, as far as Spark's driver can see.
    """
    try:
        return read_files(spark, columns, paths)
    except (PySparkException, Py4JError):
        return read_files(spark, columns, [_find(spark, path, archive) for path in paths])


def copied_columns(spark: SparkSession, columns: Sequence[TypedColumn], path: str, archive: str) -> list[TypedColumn]:
    """Return those of the table's present columns that a copy was made with; its checksum covers no others.

    A directory without files has all of them.

    Raises:
        JobError: The copy cannot be found, as in `read_copies`.
    """
    place = _find(spark, path, archive)
    try:
        names = spark.read.parquet(place).columns
    except (PySparkException, Py4JError):
        return list(columns)
    return [column for column in columns if column.name in names]


def _find(spark: SparkSession, path: str, archive: str) -> str:
    moved = "/".join([archive.rstrip("/"), *path.split("/")[-PARTS:]]) if archive else path
    for place in dict.fromkeys((path, moved)):
        try:
            spark.read.schema("nothing int").parquet(place)
        except (PySparkException, Py4JError):
            continue  # There is no such directory, or none that this machine can look into.
        return place
    places = path if moved == path else f"{path}, nor at {moved}"
    raise JobError(f"The archive's files are not at {places}; set MUSTER_ARCHIVE_URI to where the archive is now.")
