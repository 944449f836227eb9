"""Read tables in parallel and write staging tables over JDBC."""

from collections.abc import Sequence
from itertools import pairwise

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from spark_jobs.database import Database

FETCH_ROWS = "1000"
"""Rows in the memory of one parallel read, some of which have 60 KB; reading ten times as many at once is no faster."""
WRITE_BATCH_ROWS = "10000"


def read_table(spark: SparkSession, database: Database, table: str, columns: Sequence[str]) -> DataFrame:
    """Read the columns of a small table, in one partition."""
    return spark.read.jdbc(database.jdbc_url, table, properties=_reading(database)).select(*columns)


def read_by_shard(
    spark: SparkSession, database: Database, table: str, columns: Sequence[str], predicates: Sequence[str]
) -> DataFrame:
    """Read the columns of a table with `shard_id`, one partition per predicate."""
    frame = spark.read.jdbc(database.jdbc_url, table, predicates=list(predicates), properties=_reading(database))
    return frame.select(*columns)


def shard_predicates(shard_count: int, partition_count: int) -> list[str]:
    """Split the shards into ranges of about equal length, one SQL condition each.

    The first and the last are open-ended, so every row is read once whatever its shard.
    """
    parts = max(1, min(shard_count, partition_count))
    return range_predicates("shard_id", [str(shard_count * part // parts) for part in range(1, parts)])


def range_predicates(column: str, bounds: Sequence[str]) -> list[str]:
    """Split a column's values at increasing bounds; every value that is not NULL is in one range."""
    if not bounds:
        return ["true"]
    between = [f"{column} >= {low} AND {column} < {high}" for low, high in pairwise(bounds)]
    return [f"{column} < {bounds[0]}", *between, f"{column} >= {bounds[-1]}"]


def write_staging(frame: DataFrame, database: Database, table: str, attempt_id: str, partition_count: int) -> None:
    """Append the rows of one attempt to a staging table, over at most `partition_count` connections.

    Not atomic: an attempt's rows are read only after all of them are written.
    """
    # stringtype: text goes into uuid columns.
    properties = {
        **database.jdbc_properties(),
        "batchsize": WRITE_BATCH_ROWS,
        "numPartitions": str(partition_count),
        "reWriteBatchedInserts": "true",
        "stringtype": "unspecified",
    }
    staged = frame.withColumn("attempt_id", sf.lit(attempt_id))
    staged.write.jdbc(database.jdbc_url, table, mode="append", properties=properties)


def _reading(database: Database) -> dict[str, str]:
    reading = {**database.jdbc_properties(), "fetchsize": FETCH_ROWS}
    if database.snapshot:
        # With a fetch size, Spark reads in a transaction, which this statement begins.
        begin = f"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; SET TRANSACTION SNAPSHOT '{database.snapshot}'"
        reading["sessionInitStatement"] = begin
    return reading
