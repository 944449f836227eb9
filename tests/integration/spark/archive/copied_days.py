"""Days that were copied into an archive once: each test drops, restores and damages a copy of its own."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg2.extensions as pg
from pyspark.sql import SparkSession

from spark_jobs.archive.archive_copy import archive_closed_days
from spark_jobs.arguments import JobArguments
from spark_jobs.database import parse_url
from tests.integration.spark.archive.old_days import rows
from tests.support.databases import Databases


@dataclass(frozen=True)
class CopiedDays:
    """A database with a proposal of `history_archive` that is not applied, and the archive."""

    databases: Databases
    url: str
    archive: Path

    @contextmanager
    def copied(self, directory: Path) -> Iterator[str]:
        """Give the URL of a copy of the database, whose archive is `directory`/archive."""
        url = self.databases.create(self.url)
        shutil.copytree(self.archive, directory / "archive")
        with closing(parse_url(url).connect()) as connection:
            moved = f"replace(path, 'file://{self.archive}/', 'file://{directory}/archive/')"
            rows(connection, f"UPDATE archive_candidates SET path = {moved}")  # noqa: S608 - directories of tests
        yield url
        self.databases.drop(url)


@contextmanager
def copied_days(
    databases: Databases,
    spark: SparkSession,
    directory: Path,
    populate: Callable[[pg.connection], None],
    arguments: Callable[[str], JobArguments],
) -> Iterator[CopiedDays]:
    """Copy the days of a new database.

    Args:
        databases: where it is created.
        spark: what copies.
        directory: for the archive.
        populate: stores the days.
        arguments: gives those of the job, from the address of an archive.
    """
    url = databases.create()
    database = parse_url(url)
    with closing(database.connect()) as connection:
        populate(connection)
        archive_closed_days(spark, database, connection, arguments(f"file://{directory}"))
    yield CopiedDays(databases, url, directory)
    databases.drop(url)
