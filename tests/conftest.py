"""Every test that wants a database has one of its own, freshly migrated, and nothing of it stays behind.

One cluster serves a test session (each worker of pytest-xdist has its own), started when the first test asks. A
database is a clone of a template that was migrated once.
"""

from collections.abc import Iterator
from itertools import count

import psycopg2
import pytest
from psycopg2 import sql
from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name

from coordinator_core.store.postgres import PostgresStore
from muster.embedded_postgres import EmbeddedPostgres
from muster.schema import upgrade
from muster.settings import psql_url
from tests.nodes import running_node

TEMPLATE = "muster_template"
FORGETFUL = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
}
"""Server settings for a cluster that nobody will miss."""

# -- databases --------------------------------------------------------------------------------------------


class Databases:
    """Clones of one migrated template, in one cluster."""

    def __init__(self, postgres: EmbeddedPostgres) -> None:
        self._postgres = postgres
        self._admin = psycopg2.connect(psql_url(postgres.superuser_url("postgres")))
        self._admin.autocommit = True
        self._numbers = count(1)
        self._execute("CREATE DATABASE {}", TEMPLATE)
        upgrade(postgres.superuser_url(TEMPLATE))

    def create(self, *, is_migrated: bool = True) -> str:
        """Return the URL of a new database, empty of rows, or of everything."""
        name = f"test_{next(self._numbers)}"
        template = TEMPLATE if is_migrated else "template0"
        # With fsync off, copying files is quicker than logging what is in them.
        self._execute("CREATE DATABASE {} TEMPLATE {} STRATEGY FILE_COPY", name, template)
        return self._postgres.superuser_url(name)

    def jobs_url(self, url: str) -> str:
        """Return a database's URL as a member of `muster_jobs`."""
        return self._postgres.jobs_url(_name(url))

    def reader_url(self, url: str) -> str:
        """Return a database's URL as a member of `muster_reader`."""
        return self._postgres.reader_url(_name(url))

    def drop(self, url: str) -> None:
        """Remove a database, cutting whatever connection it has left."""
        self._execute("DROP DATABASE {} WITH (FORCE)", _name(url))

    def close(self) -> None:
        """Let go of the cluster."""
        self._admin.close()

    def _execute(self, statement: str, *names: str) -> None:
        with self._admin.cursor() as cursor:
            cursor.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))


def _name(url: str) -> str:
    return url.rpartition("/")[2]


@pytest.fixture(scope="session")
def databases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Databases]:
    with EmbeddedPostgres(tmp_path_factory.mktemp("cluster"), max_connections=100, options=FORGETFUL) as postgres:
        databases = Databases(postgres)
        yield databases
        databases.close()


@pytest.fixture
def database_url(databases: Databases) -> Iterator[str]:
    """Give a migrated database without groups (`postgresql+psycopg2://…`)."""
    url = databases.create()
    yield url
    databases.drop(url)


@pytest.fixture
def jobs_url(databases: Databases, database_url: str) -> str:
    """Give the URL of the same database as a member of `muster_jobs`."""
    return databases.jobs_url(database_url)


@pytest.fixture
def reader_url(databases: Databases, database_url: str) -> str:
    """Give the URL of the same database as a member of `muster_reader`."""
    return databases.reader_url(database_url)


@pytest.fixture
def empty_database_url(databases: Databases) -> Iterator[str]:
    """Give a database without a table."""
    url = databases.create(is_migrated=False)
    yield url
    databases.drop(url)


@pytest.fixture
def sql_connection(database_url: str) -> Iterator[PsycopgConnection]:
    """Connect to the database of `database_url` as people with SQL do; every statement commits by itself."""
    connection = psycopg2.connect(psql_url(database_url))
    connection.autocommit = True
    yield connection
    connection.close()


# -- stores -----------------------------------------------------------------------------------------------


@pytest.fixture
def postgres_store(database_url: str) -> Iterator[PostgresStore]:
    store = PostgresStore(database_url)
    yield store
    store.close()


# -- nodes ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def node_url(databases: Databases) -> Iterator[str]:
    """Serve a node on a database of its own for a module's tests, which keep to group ids of their own."""
    url = databases.create()
    with running_node(url, group_initial_rebalance_delay_ms=100) as node:
        yield node.url
    databases.drop(url)
