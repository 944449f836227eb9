"""The offset log in Postgres: pairs of transactions in every order, rows that are deleted, and offsets quarantined."""

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any, NamedTuple

import psycopg2
import pytest
from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name
from structlog.testing import capture_logs

from coordinator_core.state_store.offset_log import LoggedCommits, decode
from coordinator_core.state_store.postgres import PostgresStore
from coordinator_core.state_store.postgres.leases import read_leases
from coordinator_core.state_store.postgres.offset_log import LATE_ROWS
from coordinator_core.state_store.rows import CheckpointResult, QuarantinedOffset, ShardCheckpoint, WriteResult
from muster.settings import psql_url
from tests.integration.postgres.state_store.commit_gate import Gate
from tests.support.memory_store.groups import dirty_offsets
from tests.support.store_rows import MINUTE_MS, NOW_MS, SHARD, change_row, committed, removed, write
from tests.support.store_worlds import NODE, TTL_MS, Owner, Query, checkpoint_of
from tests.support.waiting import in_background

OTHER_NODE = "node-2:8080"


@pytest.fixture
def store(database_url: str) -> Iterator[PostgresStore]:
    """Wait so long that no machine is too slow for it."""
    with closing(PostgresStore(database_url, lease_ttl_ms=300_000)) as store:
        yield store


@pytest.fixture
def other(database_url: str) -> Iterator[PostgresStore]:
    with closing(PostgresStore(database_url, lease_ttl_ms=300_000)) as other:
        yield other


@pytest.fixture
def owner(store: PostgresStore) -> Owner:
    return Owner(store)


def rows(connection: PsycopgConnection, statement: str, *values: object) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return cursor.fetchall() if cursor.description else []


# -- pairs of transactions ------------------------------------------------------------------------------------


class Scene(NamedTuple):
    """A group whose offset is 1 in the table and 2 in the log, with a checkpoint of the log that was taken."""

    owner: Owner
    other: PostgresStore
    taken: Any
    seen: Any

    def append(self) -> object:
        return self.owner.append(write(committed=(committed(offset=3),)))

    def checkpoint(self) -> object:
        return self.owner.store.checkpoint(NODE, {SHARD: self.taken})

    def remove(self) -> object:
        return self.owner.append(write(removed=(removed(self.seen),), changes=(change_row("delete"),)))

    def take_over(self) -> object:
        return self.other.acquire_leases(OTHER_NODE, [SHARD], TTL_MS)


class Step(NamedTuple):
    """A transaction, the last change of a table by which it can be blocked before it commits, and its connection."""

    run: Callable[[Scene], object]
    table: str
    event: str
    application: str


STEPS = {
    "append": Step(Scene.append, "offset_log", "INSERT", "muster-writer"),
    "checkpoint": Step(Scene.checkpoint, "shard_checkpoints", "INSERT OR UPDATE", "muster-checkpoints"),
    "removal": Step(Scene.remove, "archived_offsets", "INSERT", "muster-writer"),
    "take-over": Step(Scene.take_over, "writers", "UPDATE", "muster-leases"),
}

WAITS = {
    ("append", "checkpoint"): False,
    ("checkpoint", "append"): False,
    ("append", "take-over"): True,
    ("take-over", "append"): True,
    ("checkpoint", "take-over"): True,
    ("take-over", "checkpoint"): True,
    ("removal", "take-over"): True,
    ("take-over", "removal"): True,
    ("removal", "checkpoint"): True,
    ("checkpoint", "removal"): True,
}
"""The first of two transactions is about to commit: does the second wait for it? The last pair locks a common row."""


@pytest.mark.parametrize(("first", "second", "waits"), [(*pair, waits) for pair, waits in WAITS.items()])
def test_what_was_answered_is_found_after_any_two_transactions(
    owner: Owner,
    store: PostgresStore,
    other: PostgresStore,
    sql_connection: PsycopgConnection,
    first: str,
    second: str,
    waits: bool,
    query: Query,
) -> None:
    owner.write(write(committed=(committed(offset=1),)))
    (seen,) = store.stored_offsets("orders")
    owner.append(write(committed=(committed(offset=2, at_ms=NOW_MS + MINUTE_MS),)))
    scene = Scene(owner, other, checkpoint_of(store, SHARD, owner.epochs[SHARD]), seen)
    rows(sql_connection, "UPDATE shard_leases SET expires_at = now() - interval '1 s'")
    gate = Gate(sql_connection, STEPS[first].table, STEPS[first].event)
    gate.close()
    with in_background(lambda: STEPS[first].run(scene), gate.open) as one:
        gate.wait_for(STEPS[first].application)
        with in_background(lambda: STEPS[second].run(scene), gate.open) as two:
            if waits:
                gate.wait_for(STEPS[second].application)
            else:
                two.result()
            assert not one.done()
    results = {first: one.result(), second: two.result()}

    lost = "take-over" in results and first == "take-over"
    is_appended = results.get("append") == WriteResult()
    assert is_appended == ("append" in results and not lost)
    if "checkpoint" in results:
        assert results["checkpoint"] == CheckpointResult(frozenset({SHARD}) if lost else frozenset())
    assert found_by_the_next_owner(other, query) == (3 if is_appended else 2)
    kept = rows(sql_connection, "SELECT committed_offset FROM offset_history")
    kept += rows(sql_connection, "SELECT committed_offset FROM archived_offsets")
    # A node checkpoints a group before it removes its offsets, and locks it until they are removed.
    assert kept == [(1,)] * (2 if (first, second) == ("removal", "checkpoint") else 1)


def found_by_the_next_owner(store: PostgresStore, query: Query) -> int:
    """Load the shard as its next owner, checkpoint its log, and return the offset."""
    epochs = {row.shard_id: row.epoch for row in query(read_leases) if row.node_id == OTHER_NODE}
    epochs |= store.acquire_leases(OTHER_NODE, [SHARD], TTL_MS)
    shard = checkpoint_of(store, SHARD, epochs[SHARD])
    assert store.checkpoint(OTHER_NODE, {SHARD: shard}) == CheckpointResult()
    (stored,) = store.fetch_offsets("orders")
    return stored.offset


# -- rows that are deleted -----------------------------------------------------------------------------------


def seqs(connection: PsycopgConnection) -> list[int]:
    return [seq for (seq,) in rows(connection, "SELECT seq FROM offset_log ORDER BY seq")]


def test_row_is_kept_until_all_of_its_shards_are_checkpointed(
    owner: Owner, store: PostgresStore, sql_connection: PsycopgConnection
) -> None:
    owner.append(write(committed=(committed(),)), write("b", SHARD + 1, committed=(committed(),)))
    owner.append(write(committed=(committed(),)))
    both, _ = seqs(sql_connection)
    store.checkpoint(NODE, {SHARD: checkpoint_of(store, SHARD, owner.epochs[SHARD])})
    assert seqs(sql_connection) == [both]
    owner.checkpoint()
    assert seqs(sql_connection) == []


def test_row_that_was_committed_late_is_deleted(
    owner: Owner, other: PostgresStore, sql_connection: PsycopgConnection
) -> None:
    rows(sql_connection, "SELECT setval('commit_version', %s)", 10 * LATE_ROWS)
    owner.append(write(committed=(committed(),)))
    (first,) = seqs(sql_connection)
    owner.checkpoint()
    for seq in (first - LATE_ROWS - 1, first - LATE_ROWS):
        rows(sql_connection, "INSERT INTO offset_log VALUES (%s, %s, DEFAULT, '')", seq, [SHARD])
    owner.write(write(committed=(committed(),)))
    assert seqs(sql_connection) == [first - LATE_ROWS - 1]
    other.checkpoint(NODE, {})  # Another store begins with the oldest row.
    assert seqs(sql_connection) == []


# -- quarantine ------------------------------------------------------------------------------------------------


def test_rejected_offset_is_quarantined_and_its_neighbours_are_stored(
    owner: Owner, store: PostgresStore, sql_connection: PsycopgConnection
) -> None:
    rows(sql_connection, "ALTER TABLE offsets ADD CONSTRAINT unlucky CHECK (committed_offset <> 13)")
    commits = tuple(committed(partition=number, offset=number + 10) for number in range(7))
    owner.append(write(committed=commits), write("b", committed=(committed(offset=5),)))
    result = owner.checkpoint()
    assert result.lost_shards == frozenset()
    (quarantined,) = result.quarantined
    assert quarantined[:3] == ("orders", "clicks", 3)
    assert "unlucky" in quarantined.reason
    assert [row.offset for row in store.fetch_offsets("orders")] == [10, 11, 12, 14, 15, 16]
    assert [row.offset for row in store.fetch_offsets("b")] == [5]
    ((*key, data),) = rows(sql_connection, "SELECT group_id, topic, partition, reason, data FROM quarantined_offsets")
    assert QuarantinedOffset(*key) == quarantined
    assert decode(bytes(data)) == (LoggedCommits(SHARD, "orders", (commits[3],)),)


def test_offset_that_came_past_the_log_is_quarantined_too(
    owner: Owner, store: PostgresStore, sql_connection: PsycopgConnection
) -> None:
    commits = (committed(metadata="\0"), committed(partition=1, offset=5))
    dirty = dirty_offsets([(1, LoggedCommits(SHARD, "orders", commits))])
    (quarantined,) = store.checkpoint(NODE, {SHARD: ShardCheckpoint(owner.epochs[SHARD], 1, dirty)}).quarantined
    assert quarantined[:3] == ("orders", "clicks", 0)
    assert [row.offset for row in store.fetch_offsets("orders")] == [5]
    ((data,),) = rows(sql_connection, "SELECT data FROM quarantined_offsets")
    assert [each.records for each in decode(bytes(data))] == [commits[:1]]


def test_row_that_cannot_be_decoded_is_quarantined_once_and_the_others_are_loaded(
    owner: Owner, store: PostgresStore, sql_connection: PsycopgConnection
) -> None:
    owner.append(write(committed=(committed(offset=5),)))
    owner.append(write(committed=(committed(offset=6),)))
    rows(sql_connection, r"UPDATE offset_log SET data = '\xc1' WHERE seq = (SELECT min(seq) FROM offset_log)")
    for _ in range(2):
        (position_and_commits,) = store.load_offset_log([SHARD])[SHARD].commits
        assert position_and_commits[1].records[0].offsets[0].offset == 6
    assert len(rows(sql_connection, "SELECT reason FROM quarantined_offsets WHERE group_id IS NULL")) == 1
    owner.checkpoint()
    assert seqs(sql_connection) == []


def test_checkpoint_is_stored_also_if_rows_of_the_log_cannot_be_deleted(
    database_url: str, sql_connection: PsycopgConnection
) -> None:
    with (
        closing(PostgresStore(database_url, lease_ttl_ms=10_000)) as hasty,
        closing(psycopg2.connect(psql_url(database_url))) as holder,
    ):
        owner = Owner(hasty)
        owner.append(write(committed=(committed(offset=5),)))
        rows(holder, "SELECT FROM offset_log FOR UPDATE")
        with capture_logs() as events:
            assert owner.checkpoint() == CheckpointResult()
        assert [row.offset for row in hasty.fetch_offsets("orders")] == [5]
        holder.rollback()
        owner.write(write(committed=(committed(offset=6),)))

    assert [event["event"] for event in events] == ["offset_log_trim_failed"]
    assert rows(sql_connection, "SELECT FROM offset_log") == []
