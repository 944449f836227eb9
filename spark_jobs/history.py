"""A history table is one frame, wherever its days lie: in Postgres, in the archive, or some here and some there.

A day is in the archive alone from the moment when `archived_partitions` says so; the same transaction takes it out of
Postgres. So whoever asks which days are archived, and then reads, misses a day only if it is dropped in between.
Reports about days older than are kept therefore run while no `history_archive` run is applied.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import psycopg2.extensions as pg
from psycopg2.sql import SQL, Identifier, Literal
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from spark_jobs.archive.days import HistoryTable, archived_copies, history_tables
from spark_jobs.archive.files import read_files
from spark_jobs.database import Database
from spark_jobs.errors import JobError
from spark_jobs.jdbc import read_by_shard


def read_history(
    spark: SparkSession,
    database: Database,
    connection: pg.connection,
    name: str,
    start: datetime,
    end: datetime,
    predicates: Sequence[str] = ("true",),
) -> DataFrame:
    """Read the rows of a history table from `start` to before `end`, by the column that it is partitioned by.

    Args:
        spark: Reads.
        database: Where the present days are.
        connection: Tells which days are in the archive.
        name: The table.
        start: The first instant.
        end: The instant after the last.
        predicates: One SQL condition a parallel read of Postgres; together they name every shard.

    Returns:
        A row a row of the table, in its columns and their order; where a row lies is not told.

    Raises:
        JobError: There is no such history table.
    """
    table = history_tables(connection).get(name)
    if table is None:
        raise JobError(f"There is no history table {name}.")
    first, after = start.astimezone(UTC).date(), end.astimezone(UTC).date() + timedelta(days=1)
    paths = [copy.path for copy in archived_copies(connection, name, first, after)]
    present = _read_present(spark, database, connection, table, start, end, predicates)
    if not paths:
        return present
    at = sf.col(table.at)
    archived = read_files(spark, table.columns, paths).where((at >= start) & (at < end))
    return present.unionByName(archived)


def _read_present(
    spark: SparkSession,
    database: Database,
    connection: pg.connection,
    table: HistoryTable,
    start: datetime,
    end: datetime,
    predicates: Sequence[str],
) -> DataFrame:
    relation = SQL("(SELECT * FROM {table} WHERE {at} >= {start} AND {at} < {end}) AS present_days").format(
        table=Identifier(table.name), at=Identifier(table.at), start=Literal(start), end=Literal(end)
    )
    columns = [column.name for column in table.columns]
    return read_by_shard(spark, database, relation.as_string(connection), columns, predicates)
