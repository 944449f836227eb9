"""Contract tests: committed offsets are read, replaced, added to history, and archived."""

import pytest
from msgspec.structs import astuple

from coordinator_core.protocol.requests import StoredOffset
from coordinator_core.state_store.dirty_offsets import UNKNOWN_ORIGIN, CommitOrigin, DirtyOffsets
from coordinator_core.state_store.interface import Store
from coordinator_core.state_store.offset_log import LoggedCommits
from coordinator_core.state_store.rows import ArchivedOffset, FetchedOffset, ShardCheckpoint
from tests.support.memory_store.groups import OffsetHistoryRow
from tests.support.store_rows import MINUTE_MS, NOW_MS, SHARD, committed, removed, together, uuid_of, write
from tests.support.store_worlds import NODE, Owner, World

# -- reading --------------------------------------------------------------------------------------------------


def test_a_commit_is_fetched_as_it_was_made(owner: Owner, store: Store) -> None:
    record = committed("clicks", 3, 2**62, leader_epoch=9, metadata='{"ü": "\\"}', log_end_offset=2**62 + 5)
    owner.write(write(committed=(record,)))
    assert store.fetch_offsets("orders") == [FetchedOffset("clicks", 3, 2**62, 9, '{"ü": "\\"}', NOW_MS, 2**62 + 5)]


def test_offsets_come_by_topic_and_partition(owner: Owner, store: Store) -> None:
    keys = [("b", 1), ("a", 10), ("B", 0), ("a", 2), ("ä", 0)]
    owner.write(write(committed=tuple(committed(topic, partition) for topic, partition in keys)))
    sorted_keys = [("B", 0), ("a", 2), ("a", 10), ("b", 1), ("ä", 0)]
    assert [(row.topic, row.partition) for row in store.fetch_offsets("orders")] == sorted_keys
    assert [(row.topic, row.partition) for row in store.stored_offsets("orders")] == sorted_keys


def test_a_fetch_may_name_topics(owner: Owner, store: Store) -> None:
    owner.write(write(committed=(committed("a"), committed("b"), committed("c"))))
    assert [row.topic for row in store.fetch_offsets("orders", ["c", "a", "unheard"])] == ["a", "c"]
    assert store.fetch_offsets("orders", []) == []
    assert store.fetch_offsets("strangers") == []
    assert [row.topic for row in store.fetch_offsets("orders", after=("a", 2**31 - 1), limit=1)] == ["b"]


def test_a_decision_reads_the_partitions_it_names(owner: Owner, store: Store) -> None:
    owner.write(write(committed=tuple(committed(topic, number) for topic in "ab" for number in range(3))))
    named = store.stored_offsets("orders", [("b", 1), ("a", 2), ("c", 0)])
    assert [(row.topic, row.partition) for row in named] == [("a", 2), ("b", 1)]
    assert store.stored_offsets("orders", []) == []


def test_a_decision_sees_everything_of_an_offset(owner: Owner, store: Store) -> None:
    record = committed(leader_epoch=4, metadata="m", log_end_offset=7, expires_at_ms=NOW_MS + 5)
    owner.write(write(committed=(record,)))
    (stored,) = store.stored_offsets("orders")
    assert stored == StoredOffset("clicks", 0, 1, 4, "m", 7, NOW_MS, NOW_MS + 5, stored.commit_version)


def test_each_write_of_an_offset_has_a_greater_version(owner: Owner, store: Store) -> None:
    versions = []
    for _ in range(3):
        owner.write(write(committed=tuple(committed(partition=number) for number in range(4))))
        versions += sorted({row.commit_version for row in store.stored_offsets("orders")})
    assert versions == sorted(set(versions))
    assert versions[0] > 0


def test_of_several_commits_of_a_batch_the_last_counts(owner: Owner, store: Store) -> None:
    owner.write(write(committed=(committed(offset=5), committed(offset=9))), write(committed=(committed(offset=7),)))
    assert [row.offset for row in store.fetch_offsets("orders")] == [7]


MANY = 32


def test_a_commit_of_many_partitions_is_fetched_as_it_was_made(owner: Owner, store: Store) -> None:
    metadata = ["", "m", 'a "word"', "back\\slash", "{1,2}", "NULL", "ü, and a\nline"]
    records = tuple(
        committed(
            topic,
            number,
            2**62 + number,
            leader_epoch=number,
            metadata=metadata[number % len(metadata)],
            log_end_offset=None if number % 3 else 2**62 + 99,
        )
        for topic in ("clicks", 'to"pic')
        for number in range(MANY)
    )
    commit = together(*records)
    owner.write(write(committed=(commit,)), write("a", committed=(committed(offset=7, expires_at_ms=NOW_MS + 5),)))
    fetched = [FetchedOffset(*one[1:6], one.at_ms, one.log_end_offset) for one in commit.committed_offsets]
    assert store.fetch_offsets("orders") == fetched
    assert [(row.offset, row.expires_at_ms) for row in store.stored_offsets("a")] == [(7, NOW_MS + 5)]


def test_of_several_commits_of_many_partitions_the_last_counts(owner: Owner, world: World, store: Store) -> None:
    first = tuple(committed(partition=number, offset=1, at_ms=MINUTE) for number in range(MANY))
    later = tuple(committed(partition=number, offset=2, at_ms=MINUTE + MINUTE_MS) for number in range(0, MANY, 2))
    owner.write(write(committed=(together(*first),)))
    owner.write(write(committed=(together(*later),)), write(committed=later[1:2]))
    assert [row.offset for row in store.fetch_offsets("orders")] == [2, 1] * (MANY // 2)
    assert [row.partition for row in world.history().offset_history] == list(range(0, MANY, 2))


def test_a_new_commit_clears_an_expiry(owner: Owner, store: Store) -> None:
    owner.write(write(committed=(committed(expires_at_ms=NOW_MS),)))
    owner.write(write(committed=(committed(),)))
    assert [row.expires_at_ms for row in store.stored_offsets("orders")] == [None]


def test_groups_do_not_share_offsets(owner: Owner, store: Store) -> None:
    owner.write(write("a", committed=(committed(offset=1),)), write("b", committed=(committed(offset=2),)))
    assert [row.offset for row in store.fetch_offsets("a")] == [1]


# -- one row a minute -----------------------------------------------------------------------------------------

MINUTE = NOW_MS - NOW_MS % MINUTE_MS


def commits_at(owner: Owner, *instants_ms: int, how: str) -> None:
    """Commit offset n at the nth instant."""
    writes = [write(committed=(committed(offset=number, at_ms=at_ms),)) for number, at_ms in enumerate(instants_ms)]
    for part in [writes] if how == "one batch" else [[one] for one in writes]:
        owner.append(*part)
        if how == "checkpoints":
            owner.checkpoint()
    owner.checkpoint()


HISTORIES = {
    "commits of one minute leave none": ([0, 10, MINUTE_MS - 1], []),
    "a minute that is over leaves its last": ([0, 10, MINUTE_MS], [1]),
    "every minute leaves its last": ([0, MINUTE_MS, MINUTE_MS + 5, 2 * MINUTE_MS], [0, 2]),
    "minutes without a commit leave nothing": ([0, 5 * MINUTE_MS], [0]),
    "a clock that goes back tells nothing": ([MINUTE_MS, 0, 10], []),
    "and goes on when it goes forward again": ([MINUTE_MS, 0, 2 * MINUTE_MS], [1]),
}


@pytest.mark.parametrize("how", ["one batch", "one checkpoint", "checkpoints"])
@pytest.mark.parametrize(("instants_ms", "kept"), HISTORIES.values(), ids=HISTORIES.keys())
def test_history_keeps_a_minute_s_last_position(
    owner: Owner, world: World, instants_ms: list[int], kept: list[int], how: str
) -> None:
    commits_at(owner, *(MINUTE + after_ms for after_ms in instants_ms), how=how)
    assert [row.offset for row in world.history().offset_history] == kept


def test_a_stored_position_and_a_batch_of_the_same_minute_leave_one_row(owner: Owner, world: World) -> None:
    commits_at(owner, MINUTE, how="one batch")
    commits_at(owner, MINUTE + 1, MINUTE + 2, MINUTE + MINUTE_MS, how="one batch")
    assert [(row.at_ms, row.offset) for row in world.history().offset_history] == [(MINUTE + 2, 1)]


def test_history_has_the_member_of_each_commit(owner: Owner, world: World) -> None:
    owner.write(write(committed=(committed(offset=5, log_end_offset=8, member_id="m-9"),)))
    owner.write(write(committed=(committed(offset=6, at_ms=NOW_MS + MINUTE_MS),)))
    expected = OffsetHistoryRow("orders", SHARD, "clicks", 0, NOW_MS, 5, 8, "m-9")
    assert world.history().offset_history == [expected]


# -- origins --------------------------------------------------------------------------------------------------

ADA = CommitOrigin("0123456789abcdef", "192.0.2.7")


def commit_from(owner: Owner, origin: CommitOrigin, minute: int, *, offset: int, member_id: str = "m-1") -> None:
    record = committed(offset=offset, at_ms=NOW_MS + minute * MINUTE_MS, member_id=member_id)
    position = 1_000 + minute
    dirty = DirtyOffsets()
    dirty.add(LoggedCommits(SHARD, "orders", (record,)), position, origin)
    owner.store.checkpoint(NODE, {SHARD: ShardCheckpoint(owner.epochs[SHARD], position, dirty)})


def test_a_rewind_and_a_commit_without_a_member_keep_their_origin(owner: Owner, world: World) -> None:
    given = [(5, "m-1"), (6, "m-1"), (4, "m-1"), (5, "m-1"), (9, ""), (9, "m-1"), (9, "m-1")]
    for minute, (offset, member_id) in enumerate(given):
        commit_from(owner, ADA, minute, offset=offset, member_id=member_id)
    kept = [(row.offset, row.token_id, row.client_address) for row in world.history().offset_history]
    ada = astuple(ADA)
    assert kept == [(5, *ada), (6, None, None), (4, *ada), (5, None, None), (9, *ada), (9, None, None)]


def test_a_rewind_from_an_unknown_origin_does_not_keep_that_of_the_commit_before(owner: Owner, world: World) -> None:
    commit_from(owner, ADA, 0, offset=5)
    commit_from(owner, UNKNOWN_ORIGIN, 1, offset=4)
    commit_from(owner, ADA, 2, offset=5)
    assert [row.token_id for row in world.history().offset_history] == [ADA.token_id, None]


# -- the archive ----------------------------------------------------------------------------------------------


def test_removed_offset_is_archived_unchanged(owner: Owner, world: World, store: Store) -> None:
    record = committed(offset=5, leader_epoch=2, metadata="m", log_end_offset=9)
    owner.write(write(committed=(record, committed(partition=1))))
    seen = store.stored_offsets("orders", [("clicks", 0)])
    owner.write(write(removed=(removed(seen[0], at_ms=NOW_MS + 50),)))
    assert [row.partition for row in store.fetch_offsets("orders")] == [1]
    assert world.history().archived == [
        ArchivedOffset(uuid_of("delete"), "orders", SHARD, "clicks", 0, 5, 2, "m", 9, NOW_MS, NOW_MS + 50, "deleted")
    ]


def test_offset_committed_since_is_kept(owner: Owner, world: World, store: Store) -> None:
    owner.write(write(committed=(committed(offset=5),)))
    (seen,) = store.stored_offsets("orders")
    owner.write(write(committed=(committed(offset=6),)))
    owner.write(write(removed=(removed(seen),)))
    assert [row.offset for row in store.fetch_offsets("orders")] == [6]
    assert world.history().archived == []


def test_an_offset_can_be_removed_and_committed_in_one_write(owner: Owner, world: World, store: Store) -> None:
    owner.write(write(committed=(committed(offset=5),)))
    (seen,) = store.stored_offsets("orders")
    owner.write(write(removed=(removed(seen),), committed=(committed(offset=0, at_ms=NOW_MS + MINUTE_MS),)))
    assert [row.offset for row in store.fetch_offsets("orders")] == [0]
    assert [row.offset for row in world.history().archived] == [5]
    assert world.history().offset_history == []


def test_what_is_removed_twice_is_archived_once_under_the_first_change(
    owner: Owner, world: World, store: Store
) -> None:
    owner.write(write(committed=(committed(),)))
    (seen,) = store.stored_offsets("orders")
    owner.write(write(removed=(removed(seen, "first"),)), write(removed=(removed(seen, "second"),)))
    assert [row.change_id for row in world.history().archived] == [uuid_of("first")]


def test_offsets_are_counted_by_group(owner: Owner, store: Store) -> None:
    owner.write(write(committed=tuple(committed(partition=number) for number in range(3))))
    assert store.count_offsets(["orders", "absent"]) == {"orders": 3}
    assert store.count_offsets(["absent"]) == {}


def test_has_offsets_follows_commits_and_removals(owner: Owner, store: Store) -> None:
    assert not store.has_offsets("orders")
    owner.write(write(committed=(committed(),)))
    assert store.has_offsets("orders")
    owner.write(write(removed=tuple(removed(seen) for seen in store.stored_offsets("orders"))))
    assert not store.has_offsets("orders")
