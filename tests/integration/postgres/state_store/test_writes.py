"""Contract tests: what a batch stores, and what it does not."""

from dataclasses import replace

import pytest

from coordinator_core.protocol.records import OffsetsCommitted
from coordinator_core.queries.groups import GroupFilter, read_groups
from coordinator_core.state_store.interface import Store
from coordinator_core.state_store.rows import Batch, GroupWrite, StoredGroup, WriteResult
from tests.support.store_rows import (
    NOW_MS,
    SHARD,
    change_row,
    committed,
    group_row,
    loaded,
    member_row,
    ownership_row,
    part_row,
    rebalance_row,
    session_row,
    transition_row,
    write,
)
from tests.support.store_worlds import NODE, TTL_MS, Owner, Query, World, has_commits

# -- one write ----------------------------------------------------------------------------------------------


def test_group_is_loaded_as_written(owner: Owner, store: Store) -> None:
    rebalance = {"trigger": "admin", "at_ms": NOW_MS, "names": ["ü", "\u2028", "\U0001f600"]}
    awaited = {"phase": "join", "since_ms": NOW_MS, "count": 1, "members": [{"member_id": "ü", "client_id": None}]}
    group = group_row(rebalance=rebalance, awaited_members=awaited)
    static = member_row(
        "m-2", group_instance_id="static", ownership=[{"topic": "clicks", "partitions": [3]}], join_order=1
    )
    unreadable = member_row(
        "m-1", subscription_json=None, assignment_json=None, assigned_since_ms=None, protocols=(), assignment=b""
    )
    owner.write(write(group=group, members={"m-1": unreadable, "m-2": static}))
    assert loaded(store, [SHARD]) == [StoredGroup(group, (unreadable, static))]


def test_a_group_may_be_without_protocol_leader_and_known_topics(owner: Owner, store: Store) -> None:
    group = group_row(
        protocol_type=None,
        protocol_name=None,
        leader_id=None,
        subscribed_topics=None,
        must_rebalance=True,
        rebalance_started_at_ms=NOW_MS,
        rebalance_trigger="admin",
    )
    owner.write(write(group=group))
    assert loaded(store, [SHARD]) == [StoredGroup(group, ())]


def test_no_known_topic_is_not_the_same_as_unknown_topics(owner: Owner, store: Store) -> None:
    owner.write(write(group=group_row(subscribed_topics=())))
    assert loaded(store, [SHARD])[0].group.subscribed_topics == ()


def test_members_are_loaded_in_their_order(owner: Owner, store: Store) -> None:
    members = {name: member_row(name, join_order=position) for name, position in [("b", 2), ("c", 0), ("a", 1)]}
    owner.write(write(group=group_row(), members=members))
    assert [member.member_id for member in loaded(store, [SHARD])[0].members] == ["c", "a", "b"]


def test_only_the_shards_asked_for_are_loaded(owner: Owner, store: Store) -> None:
    owner.write(write("a", 1, group=group_row("a", shard_id=1)), write("b", 2, group=group_row("b", shard_id=2)))
    assert [stored.group.group_id for stored in loaded(store, [2, 3])] == ["b"]
    assert loaded(store, []) == []


def test_loaded_rows_are_copies(owner: Owner, store: Store) -> None:
    owner.write(write(group=group_row(), members={"m-1": member_row(ownership=[{"topic": "clicks"}])}))
    loaded(store, [SHARD])[0].members[0].ownership.clear()
    assert loaded(store, [SHARD])[0].members[0].ownership == [{"topic": "clicks"}]


def test_history_is_stored_with_the_write(owner: Owner, world: World) -> None:
    transitions = (transition_row(), transition_row(at_ms=NOW_MS + 1, from_state=None, member_id=None))
    rebalances = (rebalance_row(joined_at_ms=NOW_MS + 1), rebalance_row("second", completed_at_ms=NOW_MS + 9_000))
    owner.write(
        write(
            transitions=transitions,
            rebalances=rebalances,
            ownerships=(ownership_row(), ownership_row(valid_to_ms=NOW_MS + 9_000, partitions=())),
            changes=(change_row(after={"offsets": [1, None]}),),
        )
    )
    history = world.history()
    assert history.transitions == list(transitions)
    assert [row.rebalance_id for row in history.rebalances] == [
        rebalance_row(name).rebalance_id for name in ("first", "second")
    ]
    assert history.rebalances[0] == rebalance_row(joined_at_ms=NOW_MS + 1)
    assert history.ownerships == [ownership_row(), ownership_row(valid_to_ms=NOW_MS + 9_000, partitions=())]
    assert history.changes == [change_row(after={"offsets": [1, None]})]


def test_rebalance_members_and_sessions_are_stored_with_the_write(owner: Owner, world: World) -> None:
    parts = (part_row("a"), part_row("b", joined_after_ms=None, synced_after_ms=7, group_instance_id="B"))
    unheard = session_row("b", group_instance_id="B", last_heartbeat_at_ms=None, heartbeat_gap_ms_max=None)
    sessions = (session_row("a"), replace(unheard, ended_at_ms=NOW_MS + 9_001, heartbeat_gap_histogram=()))
    owner.write(write(rebalances=(rebalance_row(),), rebalance_members=parts, sessions=sessions))
    history = world.history()
    assert history.rebalance_members == list(parts)
    assert history.sessions == list(sessions)


def test_a_member_has_one_part_in_a_rebalance(owner: Owner, world: World) -> None:
    owner.write(write(rebalance_members=(part_row("a"),)))
    assert owner.write(write(rebalance_members=(part_row("a"),))).refused_groups.keys() == {"orders"}
    assert owner.write(write(rebalance_members=(part_row("a", "second"), part_row("b")))) == WriteResult()
    assert len(world.history().rebalance_members) == 3


def test_history_rows_are_counted() -> None:
    assert write(rebalance_members=(part_row("a"), part_row("b")), sessions=(session_row(),)).size == (4, 0)


def test_an_empty_batch_is_stored_at_once(owner: Owner) -> None:
    assert owner.write() == WriteResult()


def test_a_large_batch_is_stored_whole(owner: Owner, store: Store) -> None:
    offsets = tuple(committed(partition=partition, offset=partition * 2) for partition in range(6_000))
    assert owner.write(write(committed=offsets)) == WriteResult()
    fetched = store.fetch_offsets("orders")
    assert [(row.partition, row.offset) for row in fetched] == [(number, number * 2) for number in range(6_000)]


# -- folding ------------------------------------------------------------------------------------------------


def test_of_several_writes_to_a_group_the_last_counts(owner: Owner, store: Store) -> None:
    owner.write(*(write(group=group_row(generation=generation)) for generation in (1, 3, 2)))
    assert [stored.group.generation for stored in loaded(store, [SHARD])] == [2]


def test_a_write_that_does_not_name_the_group_leaves_its_row(owner: Owner, store: Store) -> None:
    owner.write(
        write(group=group_row(generation=5)), write(members={"m-1": member_row()}), write(committed=(committed(),))
    )
    assert [stored.group.generation for stored in loaded(store, [SHARD])] == [5]


def test_of_a_member_written_and_removed_the_last_counts(owner: Owner, store: Store) -> None:
    owner.write(
        write(group=group_row(), members={"gone": member_row("gone"), "back": member_row("back")}),
        write(members={"gone": None, "back": None, "never-there": None}),
        write(members={"back": member_row("back", client_id="again")}),
    )
    assert [(row.member_id, row.client_id) for row in loaded(store, [SHARD])[0].members] == [("back", "again")]


def test_a_member_of_an_earlier_batch_can_be_removed(owner: Owner, store: Store) -> None:
    owner.write(write(group=group_row(), members={name: member_row(name) for name in ("a", "b")}))
    owner.write(write("other", group=group_row("other"), members={"a": member_row("a", "other")}))
    owner.write(write(members={"a": None}))
    assert [[row.member_id for row in stored.members] for stored in loaded(store, [SHARD])] == [["b"], ["a"]]


def test_deleting_a_group_deletes_its_members_but_not_its_offsets(owner: Owner, store: Store) -> None:
    owner.write(write(group=group_row(), members={"m-1": member_row()}, committed=(committed(),)))
    owner.write(write(is_group_deleted=True))
    assert loaded(store, [SHARD]) == []
    assert has_commits(store, "orders")


def test_a_group_can_go_and_come_again_in_one_batch(owner: Owner, store: Store) -> None:
    owner.write(write(group=group_row(), members={"old": member_row("old")}))
    owner.write(
        write(members={"unsaid": member_row("unsaid")}),
        write(is_group_deleted=True),
        write(group=group_row(generation=0), members={"new": member_row("new")}),
    )
    (stored,) = loaded(store, [SHARD])
    assert (stored.group.generation, [row.member_id for row in stored.members]) == (0, ["new"])


def test_group_is_deleted_and_created_again_in_one_write(owner: Owner, store: Store) -> None:
    owner.write(write(group=group_row(), members={"old": member_row("old")}))
    owner.write(write(is_group_deleted=True, group=group_row(generation=0), members={"new": member_row("new")}))
    assert [row.member_id for row in loaded(store, [SHARD])[0].members] == ["new"]


def test_a_group_can_come_and_go_in_one_batch(owner: Owner, store: Store) -> None:
    owner.write(write(group=group_row(), members={"m-1": member_row()}), write(is_group_deleted=True))
    assert loaded(store, [SHARD]) == []


def test_history_of_one_batch_is_kept_whole(owner: Owner, world: World) -> None:
    transitions = [transition_row(at_ms=NOW_MS + step, generation=step) for step in range(4)]
    owner.write(*(write(transitions=(row,)) for row in transitions[:2]), write(transitions=tuple(transitions[2:])))
    assert world.history().transitions == transitions


# -- the lease ----------------------------------------------------------------------------------------------


def test_shards_under_an_older_epoch_leave_the_batch(owner: Owner, store: Store) -> None:
    stale = {**owner.epochs, 1: owner.epochs[1] - 1}
    writes = tuple(write(f"g{shard}", shard, committed=(committed(),)) for shard in (1, 2))
    assert store.write(Batch(NODE, stale, writes)).lost_shards == {1}
    assert [has_commits(store, group_id) for group_id in ("g1", "g2")] == [False, True]


def test_a_node_that_owns_nothing_stores_nothing(owner: Owner, store: Store) -> None:
    written = store.write(Batch("node-2:8080", owner.epochs, (write(committed=(committed(),)),)))
    assert written == WriteResult(lost_shards=frozenset({SHARD}))
    assert not has_commits(store, "orders")


def test_previous_owner_cannot_write_after_a_failover(world: World, owner: Owner, store: Store) -> None:
    world.pass_time(TTL_MS + 1)
    store.acquire_leases("node-2:8080", [SHARD], TTL_MS)
    assert owner.write(write(committed=(committed(),))) == WriteResult(lost_shards=frozenset({SHARD}))


def test_expired_unclaimed_lease_still_writes(world: World, owner: Owner) -> None:
    world.pass_time(TTL_MS + 1)
    assert owner.write(write(committed=(committed(),))) == WriteResult()


def test_only_the_shards_written_to_have_to_be_held(owner: Owner, store: Store) -> None:
    stale = {shard: epoch - (shard != SHARD) for shard, epoch in owner.epochs.items()}
    assert store.write(Batch(NODE, stale, (write(committed=(committed(),)),))).lost_shards == frozenset()


# -- refusals -----------------------------------------------------------------------------------------------


def bad_commit(commit: OffsetsCommitted) -> GroupWrite:
    """Return a commit that is stored with its rows."""
    return write("bad", committed=(commit,), changes=(change_row(),))


def bad(group_id: str = "bad", shard_id: int = SHARD) -> GroupWrite:
    """Return a write that the database refuses."""
    return write(group_id, shard_id, transitions=(transition_row(group_id, reason="\0"),))


BAD_WRITES = {
    "a NUL in a topic": bad_commit(committed("cli\0cks")),
    "a NUL in commit metadata": bad_commit(committed(metadata="\0")),
    "half a surrogate pair": bad_commit(committed(metadata="\ud800")),
    "an offset of nine bytes": bad_commit(committed(offset=2**63)),
    "a partition of five bytes": bad_commit(committed(partition=2**31)),
    "an expiry beyond all calendars": bad_commit(committed(expires_at_ms=2**62)),
    "a NUL in a group": write("bad", group=group_row("bad", protocol_name="\0")),
    "a NUL in JSON": write("bad", members={"m": member_row("m", "bad", subscription_json={"topics": ["\0"]})}),
    "half a surrogate pair in JSON": write("bad", group=group_row("bad", rebalance={"reason": "\udc00"})),
    "a NUL in history": write("bad", transitions=(transition_row("bad", reason="\0"),)),
    "a rebalance told twice": write("bad", rebalances=(rebalance_row(), rebalance_row())),
    "a change told twice": write("bad", changes=(change_row(), change_row())),
}


@pytest.mark.parametrize("bad", BAD_WRITES.values(), ids=BAD_WRITES.keys())
def test_data_that_cannot_be_kept_is_refused_and_its_neighbours_are_not(
    owner: Owner, store: Store, bad: GroupWrite
) -> None:
    neighbours = [write(f"good-{number}", committed=(committed(),)) for number in range(9)]
    written = owner.write(*neighbours[:4], bad, *neighbours[4:])
    assert set(written.refused_groups) == {"bad"}
    assert written.lost_shards == frozenset()
    assert written.refused_groups["bad"]
    assert [row.group_id for row in neighbours if not has_commits(store, row.group_id)] == []


def test_nothing_of_a_refused_group_is_stored(owner: Owner, world: World, store: Store) -> None:
    owner.write(
        write(
            group=group_row(), members={"m-1": member_row()}, transitions=(transition_row(),), committed=(committed(),)
        ),
        bad("orders"),
        write(changes=(change_row(),)),
    )
    history = world.history()
    assert (loaded(store, [SHARD]), store.fetch_offsets("orders")) == ([], [])
    assert (history.transitions, history.changes) == ([], [])


def test_each_of_several_bad_groups_is_refused(owner: Owner, store: Store) -> None:
    refused = [bad(f"bad-{number}") for number in range(3)]
    good = [write(f"good-{number}", committed=(committed(),)) for number in range(3)]
    written = owner.write(*(row for pair in zip(refused, good, strict=True) for row in pair))
    assert set(written.refused_groups) == {"bad-0", "bad-1", "bad-2"}
    assert all(has_commits(store, row.group_id) for row in good)


def test_a_batch_of_bad_groups_alone_is_refused(owner: Owner) -> None:
    assert set(owner.write(bad()).refused_groups) == {"bad"}


def test_error_and_lost_shard_are_both_reported(owner: Owner, store: Store) -> None:
    stale = {**owner.epochs, 1: 0}
    writes = (
        write("lost", 1, committed=(committed(),)),
        bad(shard_id=2),
        write("good", 3, committed=(committed(),)),
    )
    written = store.write(Batch(NODE, stale, writes))
    assert (written.lost_shards, set(written.refused_groups)) == (frozenset({1}), {"bad"})
    assert [has_commits(store, group_id) for group_id in ("lost", "bad", "good")] == [False, False, True]


def test_a_refused_group_can_be_written_the_next_time(owner: Owner, query: Query) -> None:
    owner.write(bad("orders"))
    assert owner.write(write(group=group_row(), committed=(committed(),))) == WriteResult()
    assert [line.group_id for line in query(read_groups, GroupFilter())] == ["orders"]
