"""Locks in Postgres: a write in progress blocks acquiring the lease of its shard, and nothing else."""

from collections.abc import Iterator

import psycopg2
import pytest
from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name

from coordinator_core.state_store.interface import StoreUnavailable
from coordinator_core.state_store.postgres import PostgresStore
from coordinator_core.state_store.postgres.partitions import LOCK_PARTITION_MOVES, partition_name
from coordinator_core.state_store.postgres.store import CHANGES_AT_ONCE
from coordinator_core.state_store.rows import WriteResult
from coordinator_core.state_store.tables import HISTORY_TABLES
from muster.settings import psql_url
from tests.integration.postgres.state_store.commit_gate import Gate
from tests.support.store_rows import (
    SHARD,
    candidate,
    change_row,
    committed,
    group_row,
    loaded,
    run_row,
    uuid_of,
    write,
)
from tests.support.store_worlds import NODE, TTL_MS, Owner, has_commits, propose
from tests.support.waiting import in_background, wait_until_blocked

OTHER = "node-2:8080"
COMMIT = write(committed=(committed(),))
OTHER_COMMIT = write("other", SHARD + 1, group=group_row("other", shard_id=SHARD + 1))


@pytest.fixture
def gate(sql_connection: PsycopgConnection) -> Gate:
    return Gate(sql_connection)


@pytest.fixture
def store(database_url: str) -> Iterator[PostgresStore]:
    """Wait so long that no machine is too slow for it."""
    store = PostgresStore(database_url, lease_ttl_ms=300_000)
    yield store
    store.close()


@pytest.fixture
def owner(store: PostgresStore) -> Owner:
    return Owner(store)


@pytest.fixture
def holder(database_url: str) -> Iterator[PsycopgConnection]:
    """Give a connection that holds locks until it ends its transaction."""
    holder = psycopg2.connect(psql_url(database_url))
    yield holder
    holder.close()


def expire_leases(connection: PsycopgConnection) -> None:
    with connection.cursor() as cursor:
        cursor.execute("UPDATE shard_leases SET expires_at = now() - interval '1 s'")


def lock_lease(holder: PsycopgConnection) -> None:
    with holder.cursor() as cursor:
        cursor.execute("SELECT FROM shard_leases WHERE shard_id = %s FOR UPDATE", (SHARD,))


def test_acquiring_a_lease_waits_for_a_write_in_progress(
    owner: Owner, store: PostgresStore, gate: Gate, sql_connection: PsycopgConnection
) -> None:
    expire_leases(sql_connection)
    gate.close()
    with in_background(lambda: owner.append(COMMIT), gate.open) as written:
        gate.wait_for("muster-writer")
        with in_background(lambda: store.acquire_leases(OTHER, [SHARD], TTL_MS), gate.open) as taken:
            gate.wait_for("muster-leases")
            assert not taken.done()
    assert written.result() == WriteResult()
    assert taken.result() == {SHARD: 2}
    assert has_commits(store, "orders")
    assert owner.append(COMMIT) == WriteResult(lost_shards=frozenset({SHARD}))


def test_acquiring_the_lease_of_another_writer_does_not_wait(
    store: PostgresStore, database_url: str, gate: Gate, sql_connection: PsycopgConnection
) -> None:
    lost = PostgresStore(database_url)
    lost.acquire_leases("lost", [SHARD + 1], TTL_MS)
    lost.close()
    owner = Owner(store)
    expire_leases(sql_connection)
    gate.close()
    with in_background(lambda: owner.append(COMMIT), gate.open) as written:
        gate.wait_for("muster-writer")
        assert store.acquire_leases(OTHER, [SHARD + 1], TTL_MS) == {SHARD + 1: 2}
        assert not written.done()
    assert written.result() == WriteResult()


def test_a_renewal_does_not_wait_for_a_write(owner: Owner, store: PostgresStore, gate: Gate) -> None:
    gate.close()
    with in_background(lambda: owner.append(COMMIT), gate.open) as written:
        gate.wait_for("muster-writer")
        assert len(store.renew(NODE, {"http": "http://node"}, "1.0", owner.epochs, TTL_MS).held) == 50
        assert not written.done()
    assert written.result() == WriteResult()


def test_a_release_does_not_wait_but_the_next_owner_does(owner: Owner, store: PostgresStore, gate: Gate) -> None:
    gate.close()
    with in_background(lambda: owner.append(COMMIT), gate.open) as written:
        gate.wait_for("muster-writer")
        store.release(NODE, owner.epochs)
        with in_background(lambda: store.acquire_leases(OTHER, [SHARD], TTL_MS), gate.open) as taken:
            gate.wait_for("muster-leases")
    assert (written.result(), taken.result()) == (WriteResult(), {SHARD: 2})


def test_write_that_waits_for_a_new_owner_finds_its_shard_lost(
    owner: Owner, store: PostgresStore, gate: Gate, holder: PsycopgConnection
) -> None:
    lock_lease(holder)
    with in_background(lambda: owner.append(COMMIT, OTHER_COMMIT), holder.commit) as written:
        gate.wait_for("muster-writer")
        with holder.cursor() as cursor:
            cursor.execute("UPDATE shard_leases SET node_id = 'x', epoch = epoch + 1 WHERE shard_id = %s", (SHARD,))
    assert written.result() == WriteResult(lost_shards=frozenset({SHARD}))
    assert not has_commits(store, "orders")
    assert [stored.group.group_id for stored in loaded(store, [SHARD, SHARD + 1])] == ["other"]


def test_one_of_two_nodes_acquires_a_shard(
    store: PostgresStore, database_url: str, gate: Gate, holder: PsycopgConnection
) -> None:
    other_store = PostgresStore(database_url, lease_ttl_ms=300_000)
    lock_lease(holder)
    with (
        in_background(lambda: store.acquire_leases("x", [SHARD], TTL_MS), holder.commit) as first,
        in_background(lambda: other_store.acquire_leases("y", [SHARD], TTL_MS), holder.commit) as second,
    ):
        gate.wait_for("muster-leases", how_many=2)
    other_store.close()
    assert sorted([first.result(), second.result()], key=len) == [{}, {SHARD: 1}]


def test_others_do_not_wait_for_a_write(owner: Owner, store: PostgresStore, gate: Gate) -> None:
    owner.write(COMMIT)
    gate.close()
    with in_background(lambda: owner.append(write(committed=(committed(offset=99),))), gate.open) as written:
        gate.wait_for("muster-writer")
        assert [row.offset for row in store.fetch_offsets("orders")] == [1]
        store.put_topic("clicks", 1, None, change_row())
        assert not written.done()
    owner.checkpoint()
    assert [row.offset for row in store.fetch_offsets("orders")] == [99]


def test_a_table_that_is_read_for_long_gets_its_partitions_later_and_the_others_now(
    store: PostgresStore, holder: PsycopgConnection
) -> None:
    with holder.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM group_transitions")
    with pytest.raises(StoreUnavailable, match="lock timeout"):
        store.create_history_partitions(days_ahead=0)
    with holder.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_inherits WHERE inhrelid::regclass::text ~ '_p[0-9]+$'")
        assert cursor.fetchone() == (len(HISTORY_TABLES) - 1,)
    holder.rollback()
    store.create_history_partitions(days_ahead=1)
    assert not store.lacks_history_partitions()


def test_nodes_create_partitions_in_turn_and_once(store: PostgresStore, gate: Gate, holder: PsycopgConnection) -> None:
    with holder.cursor() as cursor:
        cursor.execute(LOCK_PARTITION_MOVES)
        with in_background(lambda: store.create_history_partitions(days_ahead=0), holder.commit) as made:
            gate.wait_for("muster-changes")
            cursor.execute("SELECT now() AT TIME ZONE 'UTC'")
            (now,) = cursor.fetchone() or ()
            name = partition_name("group_transitions", now.date())
            cursor.execute(
                f"CREATE TABLE {name} PARTITION OF group_transitions FOR VALUES FROM ('-infinity') TO ('infinity')"
            )
    assert made.exception() is None


def test_loads_and_readiness_do_not_wait_for_changes(
    store: PostgresStore, gate: Gate, holder: PsycopgConnection
) -> None:
    with holder.cursor() as cursor:
        cursor.execute("SELECT FROM versions FOR UPDATE")
    with (
        in_background(lambda: store.put_topic("clicks", 1, None, change_row("clicks")), holder.commit) as first,
        in_background(lambda: store.put_topic("views", 1, None, change_row("views")), holder.commit) as second,
    ):
        gate.wait_for("muster-changes", how_many=CHANGES_AT_ONCE)
        assert store.load_offset_log([SHARD])[SHARD].commits == []
        assert store.lacks_history_partitions()
        assert not first.done()
    assert first.exception() is second.exception() is None


def test_acquiring_a_lease_times_out_within_half_the_lease(
    owner: Owner, database_url: str, gate: Gate, sql_connection: PsycopgConnection
) -> None:
    expire_leases(sql_connection)
    gate.close()
    hasty = PostgresStore(database_url, lease_ttl_ms=2_000)
    with in_background(lambda: owner.append(COMMIT), gate.open):
        gate.wait_for("muster-writer")
        with pytest.raises(StoreUnavailable, match="lock timeout"):
            hasty.acquire_leases(OTHER, [SHARD], TTL_MS)
    hasty.close()


def test_repeated_rejection_keeps_the_candidates_of_a_run_that_is_being_applied(
    store: PostgresStore, holder: PsycopgConnection, sql_connection: PsycopgConnection
) -> None:
    for name in ("first", "next"):
        propose(sql_connection, run_row(name), [candidate(0, run=name), candidate(1, run=name)])
    store.reject(uuid_of("first"), change_row("first", actor="ada", action="reject_run"))
    repeated = change_row("next", actor="dag:offset_retention", action="reject_run")
    with holder.cursor() as cursor:
        cursor.execute("UPDATE maintenance_runs SET status = 'applying' WHERE run_id = %s", (uuid_of("next"),))
    with in_background(lambda: store.reject(uuid_of("next"), repeated), holder.commit) as rejected:
        wait_until_blocked(sql_connection, "muster-changes", call=rejected)
    assert rejected.result().status == "applying"
    with sql_connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM expiry_candidates WHERE run_id = %s", (uuid_of("next"),))
        assert cursor.fetchone() == (2,)
