"""History that is older than is kept is copied into Parquet files, checked on both sides, and proposed to be dropped.

The coordinator drops a day after it has counted again. Run by spark-submit; `spark_jobs.submit` makes the command line.
Running it again with the same run id goes on where it was, until somebody has asked for the run to be applied.
"""

import sys
from collections.abc import Sequence

import psycopg2.extensions as pg
from pyspark.sql import SparkSession

from spark_jobs.archive.copying import KIND, Archived, archive_closed_days
from spark_jobs.arguments import JobArguments, read_arguments
from spark_jobs.database import Database
from spark_jobs.publish import PROPOSED
from spark_jobs.running import run_job


def main(command_line: Sequence[str] | None = None) -> int:
    """Copy what is older than is kept; return the exit status."""
    arguments = read_arguments(KIND, command_line)

    def work(spark: SparkSession, database: Database, connection: pg.connection) -> str:
        return "\n".join(describe(arguments, archive_closed_days(spark, database, connection, arguments)))

    return run_job(KIND, work)


def describe(arguments: JobArguments, archived: Archived) -> list[str]:
    """Say what came of it, a line a day that was not the same and one for all."""
    if archived.status != PROPOSED:
        return [f"{KIND}: run {arguments.run_id} is {archived.status} already; nothing was changed."]
    odd = [f"{KIND}: the copy of {day} was not the same; the next run copies it again." for day in archived.unverified]
    counts = ", ".join(f"{name} {count}" for name, count in archived.counts.items() if name != "of")
    return [*odd, f"{KIND}: proposed run {arguments.run_id}: {counts}."]


if __name__ == "__main__":
    sys.exit(main())
