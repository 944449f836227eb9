"""A job asks Postgres first and then starts Spark; what came of it is one line, and so is why it failed."""

import sys
from collections.abc import Callable
from contextlib import closing

import psycopg2.extensions as pg
from pyspark.sql import SparkSession

from spark_jobs.database import Database, database_from_environment
from spark_jobs.failures import FAILURES, in_one_line
from spark_jobs.session import open_session


def run_job(kind: str, work: Callable[[SparkSession, Database, pg.connection], str]) -> int:
    """Do a job's work, and print what it says; return the exit status.

    Args:
        kind: the job's name.
        work: gets a session, the database and a connection, which are closed after it; returns what came of it.
    """
    try:
        database = database_from_environment()
        # Postgres is asked first: that costs nothing, and a wrong address need not wait for Spark.
        with closing(database.connect()) as connection, open_session(kind) as spark:
            said = work(spark, database, connection)
    except FAILURES as failure:
        print(f"{kind}: {in_one_line(failure)}", file=sys.stderr)
        return 1
    print(said, flush=True)
    return 0
