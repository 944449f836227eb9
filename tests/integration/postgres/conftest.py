"""Fixtures: a store with a controlled clock, proposals of jobs, access to its history, and queries."""

from collections.abc import Iterator
from contextlib import closing
from typing import Final

import psycopg2
import pytest

from coordinator_core.queries.runner import Queries
from coordinator_core.state_store.interface import Store
from muster.settings import psql_url
from tests.support.databases import MIGRATED, Databases
from tests.support.store_worlds import MS_FUNCTION, MemoryWorld, Owner, PostgresWorld, Query, World

POSTGRES: Final = pytest.param("postgres", marks=pytest.mark.postgres)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test with every store, or with Postgres only if it runs queries."""
    if "world" in metafunc.fixturenames:
        stores = [POSTGRES] if "query" in metafunc.fixturenames else ["memory", POSTGRES]
        metafunc.parametrize("world", stores, indirect=True)


@pytest.fixture
def database_url(databases: Databases) -> Iterator[str]:
    """Give a migrated database without the partitions of history that nodes create."""
    url = databases.create(MIGRATED)
    yield url
    databases.drop(url)


@pytest.fixture
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    if request.param == "memory":
        yield MemoryWorld()
        return
    url = request.getfixturevalue("database_url")
    with closing(psycopg2.connect(psql_url(url))) as connection, closing(Queries(url)) as queries:
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute(MS_FUNCTION)
        yield PostgresWorld(request.getfixturevalue("postgres_store"), connection, queries)


@pytest.fixture
def store(world: World) -> Store:
    return world.store


@pytest.fixture
def owner(world: World) -> Owner:
    return Owner(world.store)


@pytest.fixture
def query(queries: Queries) -> Query:
    return queries.read
