"""The fence: one row proves all leases of a writer, until one of them is acquired by another."""

from collections.abc import Iterator
from contextlib import closing

import psycopg2
import pytest
from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name

from coordinator_core.state_store.postgres import PostgresStore
from coordinator_core.state_store.rows import GroupWrite, WriteResult
from muster.settings import psql_url
from tests.integration.postgres.state_store.commit_gate import Gate
from tests.support.store_rows import SHARD, committed, group_row, loaded, write
from tests.support.store_worlds import NODE, TTL_MS, Owner
from tests.support.waiting import in_background, wait_until_blocked

COMMIT = write(committed=(committed(),))
GROUP = write(group=group_row())
ELSEWHERE = write("other", SHARD + 1, group=group_row("other", shard_id=SHARD + 1))
EVERY_WRITE = pytest.mark.parametrize("change", [COMMIT, GROUP], ids=["one statement", "a transaction"])
LOST = WriteResult(lost_shards=frozenset({SHARD}))
EXPIRE = "UPDATE shard_leases SET expires_at = now() - interval '1 s'"


@pytest.fixture
def store(database_url: str) -> Iterator[PostgresStore]:
    """Wait so long that no machine is too slow for it."""
    with closing(PostgresStore(database_url, lease_ttl_ms=300_000)) as store:
        yield store


@pytest.fixture
def owner(store: PostgresStore) -> Owner:
    """Return an owner whose leases of two shards were checked."""
    owner = Owner(store)
    assert owner.append(COMMIT, ELSEWHERE) == WriteResult()
    return owner


@pytest.fixture
def other(database_url: str) -> Iterator[PostgresStore]:
    with closing(PostgresStore(database_url, lease_ttl_ms=300_000)) as other:
        yield other


@pytest.fixture
def holder(database_url: str) -> Iterator[PsycopgConnection]:
    """Return a connection that holds locks until it ends its transaction."""
    with closing(psycopg2.connect(psql_url(database_url))) as holder:
        yield holder


def execute(connection: PsycopgConnection, statement: str) -> int:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return cursor.rowcount


@EVERY_WRITE
def test_write_under_the_fence_locks_no_lease(owner: Owner, holder: PsycopgConnection, change: GroupWrite) -> None:
    execute(holder, "SELECT FROM shard_leases FOR UPDATE")
    assert owner.append(change) == WriteResult()


@EVERY_WRITE
def test_acquired_shard_is_lost_and_the_others_are_written(
    owner: Owner, other: PostgresStore, sql_connection: PsycopgConnection, change: GroupWrite
) -> None:
    execute(sql_connection, EXPIRE)
    other.acquire_leases("node-2", [SHARD], TTL_MS)
    execute(sql_connection, "DELETE FROM groups")
    assert owner.append(change, ELSEWHERE) == LOST
    assert [stored.group.group_id for stored in loaded(owner.store, [SHARD, SHARD + 1])] == ["other"]
    assert owner.append(change) == LOST
    assert owner.append(ELSEWHERE) == WriteResult()


@EVERY_WRITE
def test_lost_shard_is_remembered_as_lost_when_other_shards_are_checked(
    owner: Owner, other: PostgresStore, sql_connection: PsycopgConnection, change: GroupWrite
) -> None:
    execute(sql_connection, EXPIRE)
    other.acquire_leases("node-2", [SHARD], TTL_MS)
    assert owner.append(ELSEWHERE) == WriteResult()
    assert owner.append(change) == LOST


@EVERY_WRITE
def test_write_that_waits_for_the_fence_finds_its_shard_lost(
    owner: Owner, holder: PsycopgConnection, sql_connection: PsycopgConnection, change: GroupWrite
) -> None:
    execute(holder, "SELECT FROM writers FOR UPDATE")
    with in_background(lambda: owner.append(change), holder.commit) as written:
        wait_until_blocked(sql_connection, "muster-writer", call=written)
        execute(holder, "UPDATE writers SET fence = fence + 1")
        execute(holder, "UPDATE shard_leases SET epoch = epoch + 1")
    assert written.result() == LOST


@EVERY_WRITE
def test_node_that_was_started_again_refuses_the_writes_of_its_former_process(
    owner: Owner, other: PostgresStore, change: GroupWrite
) -> None:
    assert other.acquire_leases(NODE, [SHARD], TTL_MS) == {SHARD: 2}
    assert owner.append(change) == LOST


@EVERY_WRITE
def test_write_under_an_older_epoch_of_the_same_writer_is_refused(
    owner: Owner, store: PostgresStore, change: GroupWrite
) -> None:
    before = dict(owner.epochs)
    owner.epochs = {**before, **store.acquire_leases(NODE, [SHARD], TTL_MS)}
    assert owner.append(change) == WriteResult()
    owner.epochs = before
    assert owner.append(change) == LOST


def test_acquiring_a_lease_waits_for_a_write_under_the_fence(
    owner: Owner, other: PostgresStore, sql_connection: PsycopgConnection
) -> None:
    execute(sql_connection, EXPIRE)
    gate = Gate(sql_connection)
    gate.close()
    with in_background(lambda: owner.write(COMMIT), gate.open) as written:
        gate.wait_for("muster-writer")
        with in_background(lambda: other.acquire_leases("node-2", [SHARD], TTL_MS), gate.open) as acquired:
            wait_until_blocked(sql_connection, "muster-leases", call=acquired)
    assert (written.result(), acquired.result()) == (WriteResult(), {SHARD: 2})


def test_new_incarnation_waits_for_a_write_under_the_fence(
    owner: Owner, other: PostgresStore, sql_connection: PsycopgConnection
) -> None:
    gate = Gate(sql_connection)
    gate.close()
    with in_background(lambda: owner.append(COMMIT), gate.open) as written:
        gate.wait_for("muster-writer")
        with in_background(lambda: other.start_incarnation(1, "ada", "restored"), gate.open) as started:
            wait_until_blocked(sql_connection, "muster-leases", call=started)
    assert (written.result(), started.result().number) == (WriteResult(), 2)
    assert owner.append(COMMIT) == LOST


def test_writers_without_leases_are_deleted_and_may_return(
    store: PostgresStore, other: PostgresStore, sql_connection: PsycopgConnection
) -> None:
    owner = Owner(store)
    execute(sql_connection, EXPIRE)
    Owner(other)
    assert execute(sql_connection, "SELECT FROM writers") == 2
    other.delete_lost_nodes(0)
    assert execute(sql_connection, "SELECT FROM writers") == 1
    assert owner.append(COMMIT) == LOST
    execute(sql_connection, EXPIRE)
    owner = Owner(store)
    assert owner.append(COMMIT) == WriteResult()
    assert execute(sql_connection, "SELECT FROM writers") == 2


@EVERY_WRITE
def test_writer_that_returns_has_no_fence_that_it_had_before(
    owner: Owner, store: PostgresStore, other: PostgresStore, sql_connection: PsycopgConnection, change: GroupWrite
) -> None:
    """A write that was under way all the time compares the fence of a lease that was lost meanwhile."""
    execute(sql_connection, EXPIRE)
    other.acquire_leases("node-2", owner.epochs, TTL_MS)
    other.delete_lost_nodes(0)
    execute(sql_connection, EXPIRE)
    store.acquire_leases(NODE, [SHARD + 1], TTL_MS)
    assert owner.append(change) == LOST
