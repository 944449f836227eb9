"""A database with days that are old enough to archive, and the arguments of the job."""

from collections.abc import Iterator
from pathlib import Path

import psycopg2.extensions as pg
import pytest
from pyspark.sql import SparkSession

from spark_jobs.arguments import JobArguments
from tests.integration.spark.archive.copied_days import CopiedDays, copied_days
from tests.integration.spark.archive.old_days import NOW, RUN_ID, add_old_days
from tests.support.databases import Databases


def archive_arguments(archive: str) -> JobArguments:
    return JobArguments(RUN_ID, NOW, None, None, -1, is_dry_run=False, read_partitions=2, archive=archive)


@pytest.fixture
def arguments(tmp_path: Path) -> JobArguments:
    return archive_arguments(f"file://{tmp_path}/archive")


@pytest.fixture
def populated(connection: pg.connection) -> pg.connection:
    """Two days that are old enough, one that is kept, and a row that came too late for its partition."""
    add_old_days(connection)
    return connection


@pytest.fixture(scope="session")
def old_days(
    databases: Databases, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[CopiedDays]:
    """The days of `populated`, copied into an archive."""
    with copied_days(databases, spark, tmp_path_factory.mktemp("archive"), add_old_days, archive_arguments) as days:
        yield days
