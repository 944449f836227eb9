"""Run a job: connect to Postgres, start Spark, and print the result for programs and for people, or the error."""

import sys
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import psycopg2.extensions as pg
from pyspark.sql import SparkSession

from spark_jobs.database import URL_VARIABLES, Database, database_from_environment
from spark_jobs.error_message import FAILURES, one_line_message
from spark_jobs.session import open_session
from spark_jobs.submit import OWN_CLUSTER, database_variable, result_line


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a job: a text for people, and values for programs, `counts` among them."""

    text: str
    values: Mapping[str, Any]


def run_job(
    kind: str, work: Callable[[SparkSession, Database, pg.connection], Result], cluster: str = OWN_CLUSTER
) -> int:
    """Run a job's work and print its result; return the exit status.

    Args:
        kind: the job's name.
        work: receives a session, the database and a connection, which are closed afterwards; returns the result.
        cluster: the cluster whose database it is.
    """
    try:
        variables = URL_VARIABLES if cluster == OWN_CLUSTER else (database_variable(cluster),)
        database = database_from_environment(variables)
        # Connect first: a wrong address should fail before Spark starts.
        with closing(database.connect()) as connection, open_session(kind) as spark:
            result = work(spark, database, connection)
    except FAILURES as failure:
        print(f"{kind}: {one_line_message(failure)}", file=sys.stderr)
        return 1
    print("\n".join(output_lines(kind, result)), flush=True)
    return 0


def output_lines(kind: str, result: Result) -> list[str]:
    """Return the lines of a job's output; the last two are the values, and the last line of the text.

    Whatever the text's length, Airflow finds the values: it keeps the last 20 lines only.
    """
    *details, summary = result.text.splitlines()
    return [*details, result_line(kind, result.values), summary]
