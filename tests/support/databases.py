"""Databases for tests: clones of migrated templates in a temporary cluster."""

import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import psycopg2
from psycopg2 import sql

from coordinator_core.state_store.postgres import PostgresStore
from muster.local.embedded_postgres import EmbeddedPostgres
from muster.node.schema import upgrade
from muster.settings import psql_url

EMPTY: Final = "template0"
MIGRATED: Final = "muster_template"
WITH_DAYS: Final = "muster_template_with_days"
"""Has the partitions of history that a node would create at its start, which takes it as long as all the rest."""
DAYS_AHEAD: Final = 8
"""One more than a node needs, for tests after midnight."""
FORGETFUL = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "scram_iterations": "1",
}
"""Server settings for a cluster that is deleted afterwards, with cheap passwords: a client spends more
time on 4,096 hashes than on all else that a connection needs."""


IN_MEMORY: Final = Path("/dev/shm")
FREE_BYTES_MIN: Final = 2 * 2**30
"""What a cluster in memory needs beside those of other test processes."""


@contextmanager
def cluster_directory(otherwise: Path) -> Iterator[Path]:
    """Return a directory for a temporary cluster: in memory if there is space, where cloning is three times as fast."""
    if not IN_MEMORY.is_dir() or shutil.disk_usage(IN_MEMORY).free < FREE_BYTES_MIN:
        yield otherwise
        return
    with TemporaryDirectory(prefix="muster-tests-", dir=IN_MEMORY) as name:
        yield Path(name)


class Databases:
    """Clones of migrated templates, in one cluster."""

    def __init__(self, postgres: EmbeddedPostgres) -> None:
        self._postgres = postgres
        self._admin = psycopg2.connect(psql_url(postgres.superuser_url("postgres")))
        self._admin.autocommit = True
        self._numbers = count(1)
        with self._admin.cursor() as cursor:  # What initdb hashed took its own iterations.
            cursor.execute("ALTER USER CURRENT_USER PASSWORD %s", [self._admin.info.password])
        self._execute("CREATE DATABASE {}", MIGRATED)
        upgrade(postgres.superuser_url(MIGRATED))
        self._execute("CREATE DATABASE {} TEMPLATE {}", WITH_DAYS, MIGRATED)
        with closing(PostgresStore(postgres.superuser_url(WITH_DAYS))) as store:
            store.create_history_partitions(DAYS_AHEAD)

    def create(self, template: str = WITH_DAYS) -> str:
        """Return the URL of a new database.

        Args:
            template: the database, or its URL, that it is a copy of.
        """
        name, template = f"test_{next(self._numbers)}", _name(template)
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
        """Drop a database, closing its remaining connections."""
        self._execute("DROP DATABASE {} WITH (FORCE)", _name(url))

    def close(self) -> None:
        """Let go of the cluster."""
        self._admin.close()

    def _execute(self, statement: str, *names: str) -> None:
        with self._admin.cursor() as cursor:
            cursor.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))


def _name(url: str) -> str:
    return url.rpartition("/")[2]


@contextmanager
def offset_log_locked(url: str) -> Iterator[None]:
    """Lock the offset log, so that no commit is stored."""
    with closing(psycopg2.connect(psql_url(url))) as connection, connection.cursor() as cursor:
        cursor.execute("LOCK TABLE offset_log IN ACCESS EXCLUSIVE MODE")
        yield
