"""Fixtures: a store with a controlled clock, proposals of jobs, and access to its history."""

from collections.abc import Iterator

import psycopg2
import pytest

from coordinator_core.store.interface import Store
from muster.settings import psql_url
from tests.support.store_worlds import MS_FUNCTION, MemoryWorld, Owner, PostgresWorld, World


@pytest.fixture(params=["memory", pytest.param("postgres", marks=pytest.mark.postgres)])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    if request.param == "memory":
        yield MemoryWorld()
        return
    connection = psycopg2.connect(psql_url(request.getfixturevalue("database_url")))
    connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.execute(MS_FUNCTION)
    yield PostgresWorld(request.getfixturevalue("postgres_store"), connection)
    connection.close()


@pytest.fixture
def store(world: World) -> Store:
    return world.store


@pytest.fixture
def owner(store: Store) -> Owner:
    return Owner(store)
