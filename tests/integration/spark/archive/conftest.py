"""A database with days that are old enough to archive, and the arguments of the job."""

from pathlib import Path

import psycopg2.extensions as pg
import pytest

from spark_jobs.arguments import JobArguments
from tests.integration.spark.archive.old_days import (
    KEPT,
    LATE,
    NOW,
    OLD,
    OLDER,
    RUN_ID,
    STRAY,
    add_day,
    rows,
)


@pytest.fixture
def arguments(tmp_path: Path) -> JobArguments:
    archive = f"file://{tmp_path}/archive"
    return JobArguments(RUN_ID, NOW, None, None, -1, is_dry_run=False, read_partitions=2, archive=archive)


@pytest.fixture
def populated(connection: pg.connection) -> pg.connection:
    """Two days that are old enough, one that is kept, and a row that came too late for its partition."""
    for day in (OLD, OLDER, KEPT):
        add_day(connection, day)
    rows(connection, STRAY.format(day=LATE))
    return connection
