"""Run a job: connect to Postgres, start Spark, and print the result or the error in one line."""

import sys
from collections.abc import Callable
from contextlib import closing

import psycopg2.extensions as pg
from pyspark.sql import SparkSession

from spark_jobs.database import Database, database_from_environment
from spark_jobs.error_message import FAILURES, one_line_message
from spark_jobs.session import open_session


def run_job(kind: str, work: Callable[[SparkSession, Database, pg.connection], str]) -> int:
    """Run a job's work and print its result; return the exit status.

    Args:
        kind: the job's name.
        work: receives a session, the database and a connection, which are closed afterwards; returns the line to print.
    """
    try:
        database = database_from_environment()
        # Connect first: a wrong address should fail before Spark starts.
        with closing(database.connect()) as connection, open_session(kind) as spark:
            result = work(spark, database, connection)
    except FAILURES as failure:
        print(f"{kind}: {one_line_message(failure)}", file=sys.stderr)
        return 1
    print(result, flush=True)
    return 0
