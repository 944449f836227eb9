"""Contract tests: commits are in the log first, and in the table after a checkpoint of their shard by its owner."""

from collections.abc import Collection

import pytest

from coordinator_core.state_store.interface import Store
from coordinator_core.state_store.rows import Batch, CheckpointResult, ShardCheckpoint
from tests.support.store_rows import (
    MINUTE_MS,
    NOW_MS,
    SHARD,
    change_row,
    committed,
    removed,
    together,
    transition_row,
    uuid_of,
    write,
)
from tests.support.store_worlds import NODE, TTL_MS, Owner, World, checkpoint_of

OTHER_NODE = "node-2:8080"


def logged(store: Store, shards: Collection[int] = (SHARD,)) -> list[int]:
    """Return the offsets of the commits that no checkpoint of these shards has passed."""
    logs = store.load_offset_log(shards).values()
    return [
        one.offset for log in logs for _, commits in log.commits for record in commits.records for one in record.offsets
    ]


def stored(store: Store, group_id: str = "orders") -> list[int]:
    return [row.offset for row in store.fetch_offsets(group_id)]


# -- append -------------------------------------------------------------------------------------------------


def test_commit_is_in_the_log_until_a_checkpoint_stores_it(owner: Owner, store: Store) -> None:
    owner.append(write(committed=(committed(offset=5),)))
    assert (logged(store), stored(store)) == ([5], [])
    owner.checkpoint()
    assert (logged(store), stored(store)) == ([], [5])


def test_commits_of_a_batch_have_one_position_and_later_ones_a_greater(owner: Owner, store: Store) -> None:
    batch = Batch(NODE, owner.epochs, (write(committed=(committed(),)), write("b", committed=(committed(),))))
    first, second = store.write(batch).log_position, store.write(batch).log_position
    assert 0 < first < second
    positions = [position for position, _ in store.load_offset_log([SHARD])[SHARD].commits]
    assert positions == [first, first, second, second]


def test_batch_without_commits_has_no_position(owner: Owner, store: Store) -> None:
    assert store.write(Batch(NODE, owner.epochs, (write(transitions=(transition_row(),)),))).log_position == 0


def test_commit_beside_other_rows_is_in_the_log_too(owner: Owner, store: Store) -> None:
    owner.append(write(committed=(committed(offset=5),), transitions=(transition_row(),)))
    assert (logged(store), stored(store)) == ([5], [])


def test_commit_of_an_operator_is_in_the_table_at_once_and_newer_than_those_in_the_log(
    owner: Owner, store: Store
) -> None:
    owner.append(write(committed=(committed(offset=5),)))
    owner.append(write(committed=(committed(offset=2),), changes=(change_row(),)))
    assert (logged(store), stored(store)) == ([5], [2])
    owner.checkpoint()
    assert stored(store) == [2]


# -- checkpoints --------------------------------------------------------------------------------------------


def test_checkpoint_of_a_shard_leaves_the_others_in_the_log(owner: Owner, store: Store) -> None:
    owner.append(write(committed=(committed(offset=5),)), write("b", SHARD + 1, committed=(committed(offset=6),)))
    checkpoint = checkpoint_of(store, SHARD, owner.epochs[SHARD])
    assert store.checkpoint(NODE, {SHARD: checkpoint}) == CheckpointResult()
    assert (logged(store, [SHARD, SHARD + 1]), stored(store), stored(store, "b")) == ([6], [5], [])


def test_commit_after_a_checkpoint_was_taken_is_still_in_the_log(owner: Owner, store: Store) -> None:
    owner.append(write(committed=(committed(offset=5),)))
    checkpoint = checkpoint_of(store, SHARD, owner.epochs[SHARD])
    owner.append(write(committed=(committed(offset=6),)))
    store.checkpoint(NODE, {SHARD: checkpoint})
    assert (logged(store), stored(store)) == ([6], [5])


def test_repeated_checkpoint_changes_nothing(owner: Owner, world: World, store: Store) -> None:
    owner.append(write(committed=(committed(offset=5),)))
    first = checkpoint_of(store, SHARD, owner.epochs[SHARD])
    store.checkpoint(NODE, {SHARD: first})
    owner.write(write(committed=(committed(offset=6, at_ms=NOW_MS + MINUTE_MS),)))
    store.checkpoint(NODE, {SHARD: first})
    assert (logged(store), stored(store)) == ([], [6])
    assert [row.offset for row in world.history().offset_history] == [5]


@pytest.mark.parametrize("stored_first", [1, 2], ids=["of an earlier minute", "all"])
def test_next_owner_repeats_no_history_of_a_checkpoint_that_ended_between_its_transactions(
    owner: Owner, world: World, store: Store, stored_first: int
) -> None:
    owner.append(write(committed=(committed(offset=5),)))
    owner.append(write(committed=(committed(offset=6, at_ms=NOW_MS + MINUTE_MS),)))
    dirty = checkpoint_of(store, SHARD, owner.epochs[SHARD]).dirty.take(stored_first)
    store.checkpoint(NODE, {SHARD: ShardCheckpoint(owner.epochs[SHARD], 0, dirty)})
    owner.write(write(committed=(committed(offset=7, at_ms=NOW_MS + 2 * MINUTE_MS),)))
    assert [row.offset for row in world.history().offset_history] == [5, 6]


def test_older_commit_replaces_no_newer_one(owner: Owner, world: World, store: Store) -> None:
    owner.append(write(committed=(committed(offset=5),)))
    stale = checkpoint_of(store, SHARD, owner.epochs[SHARD])
    owner.write(write(committed=(committed(offset=6, at_ms=NOW_MS - MINUTE_MS),)))
    store.checkpoint(NODE, {SHARD: stale})
    assert (stored(store), world.history().offset_history) == ([6], [])


def test_position_never_decreases(owner: Owner, store: Store) -> None:
    owner.append(write(committed=(committed(offset=5),)))
    stale = checkpoint_of(store, SHARD, owner.epochs[SHARD])
    owner.write(write(committed=(committed(offset=6),)))
    reached = store.load_offset_log([SHARD])[SHARD].position
    store.checkpoint(NODE, {SHARD: stale})
    assert store.load_offset_log([SHARD])[SHARD].position == reached


def test_node_without_the_lease_stores_nothing(world: World, owner: Owner, store: Store) -> None:
    owner.append(write(committed=(committed(offset=5),)), write("b", SHARD + 1, committed=(committed(offset=6),)))
    shards = {shard: checkpoint_of(store, shard, owner.epochs[shard]) for shard in (SHARD, SHARD + 1)}
    world.pass_time(TTL_MS)
    store.acquire_leases(OTHER_NODE, [SHARD], TTL_MS)
    assert store.checkpoint(NODE, shards) == CheckpointResult(lost_shards=frozenset({SHARD}))
    assert (logged(store), stored(store), stored(store, "b")) == ([5], [], [6])


def test_checkpoint_under_an_older_epoch_stores_nothing(owner: Owner, store: Store) -> None:
    owner.append(write(committed=(committed(offset=5),)))
    stale = checkpoint_of(store, SHARD, owner.epochs[SHARD])
    store.acquire_leases(NODE, [SHARD], TTL_MS)
    assert store.checkpoint(NODE, {SHARD: stale}).lost_shards == {SHARD}
    assert (logged(store), stored(store)) == ([5], [])


def test_checkpoint_on_another_server_stores_nothing(world: World, owner: Owner, store: Store) -> None:
    owner.append(write(committed=(committed(offset=5),)))
    checkpoint = checkpoint_of(store, SHARD, owner.epochs[SHARD])
    world.fail_over()
    assert store.checkpoint(NODE, {SHARD: checkpoint}).lost_shards == {SHARD}
    assert stored(store) == []


def test_next_owner_finds_what_was_not_checkpointed(world: World, owner: Owner, store: Store) -> None:
    owner.write(write(committed=(committed(offset=5),)))
    owner.append(write(committed=(together(committed(offset=6), committed(partition=1, offset=7)),)))
    world.pass_time(TTL_MS)
    epochs = store.acquire_leases(OTHER_NODE, [SHARD], TTL_MS)
    assert logged(store) == [6, 7]
    checkpoint: ShardCheckpoint = checkpoint_of(store, SHARD, epochs[SHARD])
    assert store.checkpoint(OTHER_NODE, {SHARD: checkpoint}) == CheckpointResult()
    assert (logged(store), stored(store)) == ([], [6, 7])


def test_offset_committed_since_in_the_log_only_is_not_removed_for_good(owner: Owner, store: Store) -> None:
    owner.write(write(committed=(committed(offset=5),)))
    (seen,) = store.stored_offsets("orders")
    owner.append(write(committed=(committed(offset=6),)))
    owner.append(write(removed=(removed(seen),), changes=(change_row("delete"),)))
    owner.checkpoint()
    assert stored(store) == [6]


# -- topics -------------------------------------------------------------------------------------------------


def test_deletion_of_a_topic_includes_commits_that_are_in_the_log_only(owner: Owner, store: Store) -> None:
    store.put_topic("clicks", 3, 4, change_row("put"))
    owner.write(write(committed=(committed(), committed(partition=1))))
    owner.append(write(committed=(committed(), committed("views"))), write("b", committed=(committed(partition=2),)))
    noted = store.delete_topic("clicks", change_row("delete"))
    assert noted is not None
    assert noted.after == {"topic": "clicks", "run_id": uuid_of("delete"), "candidates": 3}
    owner.checkpoint()
    versions = {
        (group, row.partition): row.commit_version
        for group in ("orders", "b")
        for row in store.stored_offsets(group)
        if row.topic == "clicks"
    }
    found = {(row.group_id, row.partition): row.commit_version for row in store.next_candidates([SHARD], 10)}
    assert found == versions
