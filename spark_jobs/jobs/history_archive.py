"""Copy old days of history to Parquet files, verify the copies, and propose to drop the days from Postgres.

The coordinator counts a day again before it drops it. Run by spark-submit; `spark_jobs.submit` builds the command line.
Running it again with the same run id continues, until the run is applied or rejected.
"""

import sys
from collections.abc import Sequence

import psycopg2.extensions as pg
from pyspark.sql import SparkSession

from spark_jobs.archive.archive_copy import KIND, Archived, archive_closed_days
from spark_jobs.arguments import JobArguments, read_arguments
from spark_jobs.database import Database
from spark_jobs.job_runner import Result, run_job
from spark_jobs.publish import PROPOSED


def main(command_line: Sequence[str] | None = None) -> int:
    """Run the job; return the exit status."""
    arguments = read_arguments(KIND, command_line)

    def work(spark: SparkSession, database: Database, connection: pg.connection) -> Result:
        archived = archive_closed_days(spark, database, connection, arguments)
        values = {"run_id": arguments.run_id, "status": archived.status, "counts": archived.counts}
        return Result("\n".join(describe(arguments, archived)), values)

    return run_job(KIND, work, arguments.cluster)


def describe(arguments: JobArguments, archived: Archived) -> list[str]:
    """Return the result: a line for each day whose copy did not match, and a summary."""
    if archived.status != PROPOSED:
        return [f"{KIND}: run {arguments.run_id} is {archived.status} already; nothing was changed."]
    odd = [f"{KIND}: the copy of {day} did not match; the next run copies it again." for day in archived.unverified]
    counts = ", ".join(f"{name} {count}" for name, count in archived.counts.items() if name != "of")
    return [*odd, f"{KIND}: proposed run {arguments.run_id}: {counts}."]


if __name__ == "__main__":
    sys.exit(main())
