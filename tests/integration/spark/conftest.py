"""Fixtures: the test's database in the jobs' form, and a connection to it."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import psycopg2.extensions as pg
import pytest

from spark_jobs.database import Database, parse_url
from tests.integration.spark.live_groups import rows


@pytest.fixture
def database(database_url: str) -> Database:
    """Return the test's own database in the jobs' form."""
    return parse_url(database_url)


@pytest.fixture
def connection(database: Database) -> Iterator[pg.connection]:
    """Give a connection to it, for the time of the test."""
    with closing(database.connect()) as connection:
        yield connection


@pytest.fixture
def as_jobs_role(database: Database, connection: pg.connection) -> Iterator[Database]:
    """Return the same database for a role with the privileges of `muster_jobs` only."""
    rows(connection, "CREATE ROLE jobs_under_test LOGIN PASSWORD 'p@ss/word' IN ROLE muster_jobs")
    yield replace(database, user="jobs_under_test", password="p@ss/word")
    rows(connection, "DROP ROLE jobs_under_test")
