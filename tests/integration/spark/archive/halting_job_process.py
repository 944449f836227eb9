"""A process that archives history, and whose third copy does not end, so that a test can kill it there.

Argument: the archive's directory. The database is named in the environment, as for every job.
"""

import sys
from contextlib import closing
from itertools import count
from typing import Any

import pytest
from pyspark.sql import DataFrame

from spark_jobs.archive import archive_copy, files
from spark_jobs.arguments import JobArguments
from spark_jobs.database import database_from_environment
from spark_jobs.session import open_session
from spark_jobs.submit import find_jdbc_jar
from tests.integration.spark.archive.old_days import NOW, RUN_ID
from tests.support.spark_session import TEST_CONF

COPIES = 2
"""How many are written before."""
FOR_EVER = "reflect('java.lang.Thread', 'sleep', 3600000L) IS NULL"


def run_job(directory: str) -> None:
    arguments = JobArguments(RUN_ID, NOW, None, None, -1, is_dry_run=False, read_partitions=2, archive=directory)
    database = database_from_environment()
    conf = {**TEST_CONF, "spark.jars": str(find_jdbc_jar())}
    calls = count()

    def write_day(rows: DataFrame, *given: Any) -> None:  # noqa: ANN401 - as the original
        files.write_day(rows if next(calls) < COPIES else rows.where(FOR_EVER), *given)

    with (
        closing(database.connect()) as connection,
        open_session("halting", "local[1]", conf) as spark,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(archive_copy, "write_day", write_day)
        archive_copy.archive_closed_days(spark, database, connection, arguments)


if __name__ == "__main__":
    run_job(sys.argv[1])
