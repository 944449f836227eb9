"""Contract tests: queries of history."""

from dataclasses import asdict

import pytest

from coordinator_core.protocol.errors import GroupIdNotFound
from coordinator_core.queries.offset_totals import OffsetTotal, read_offset_totals
from coordinator_core.queries.ownership import Moment, OffsetAtTime, PartitionOwnership, read_offsets_at, read_ownership
from coordinator_core.queries.rebalances import (
    RebalanceCursor,
    RebalanceWait,
    WaitQuery,
    read_rebalance_members,
    read_rebalances,
    read_waits,
    rebalance_cursor,
)
from coordinator_core.queries.transitions import TransitionCursor, cursor_of, read_transitions
from coordinator_core.state_store.interface import Store
from coordinator_core.state_store.postgres.timestamps import END_OF_TIME_MS
from coordinator_core.state_store.rows import Rebalance, RebalanceRow, TransitionRow
from tests.support.store_rows import (
    MINUTE_MS,
    NOW_MS,
    SHARD,
    committed,
    group_row,
    member_row,
    ownership_row,
    part_row,
    rebalance_row,
    removed,
    transition_row,
    uuid_of,
    write,
)
from tests.support.store_worlds import Owner, Query

IN_PROGRESS = {
    "rebalance_id": uuid_of("under way"),
    "trigger": "session_expired",
    "trigger_member_id": "m-2",
    "client_reason": None,
    "started_at_ms": NOW_MS + 9_000,
    "member_count_before": 2,
    "joined_at_ms": None,
    "restarts": 1,
}


def listed(row: RebalanceRow) -> Rebalance:
    """Return the list entry of a rebalance that ended."""
    return Rebalance(**asdict(row))


# -- rebalances -----------------------------------------------------------------------------------------


def test_rebalances_come_newest_first_with_every_column(owner: Owner, query: Query) -> None:
    old, new = rebalance_row("old", joined_at_ms=NOW_MS + 7), rebalance_row("new", completed_at_ms=NOW_MS + 3_001)
    owner.write(write(rebalances=(new, old)), write("other", rebalances=(rebalance_row("else", "other"),)))
    assert query(read_rebalances, "orders", None, 10) == [listed(new), listed(old)]


def test_the_rebalance_under_way_comes_first_and_is_not_over(owner: Owner, query: Query) -> None:
    snapshot = {"in_progress": IN_PROGRESS, "last_owners": []}
    in_progress = group_row(generation=4, rebalance=snapshot, created_at_ms=NOW_MS - 1)
    owner.write(write(group=in_progress, rebalances=(rebalance_row(),)))
    first, second = query(read_rebalances, "orders", None, 10)
    assert second.rebalance_id == uuid_of("first")
    assert first == Rebalance(
        rebalance_id=uuid_of("under way"),
        group_id="orders",
        shard_id=SHARD,
        group_created_at_ms=NOW_MS - 1,
        generation=4,
        trigger="session_expired",
        trigger_member_id="m-2",
        client_reason=None,
        started_at_ms=NOW_MS + 9_000,
        joined_at_ms=None,
        completed_at_ms=None,
        outcome=None,
        restarts=1,
        member_count_before=2,
        member_count_after=None,
        partitions_moved=None,
        is_trigger_inferred=False,
        is_start_inferred=False,
    )


def test_a_group_between_rebalances_has_none_in_progress(owner: Owner, query: Query) -> None:
    last_owners = {"in_progress": None, "last_owners": [["clicks", 1, "m-2"]]}
    owner.write(write(group=group_row(rebalance=last_owners)), write("b", group=group_row("b")))
    assert query(read_rebalances, "orders", None, 10) == query(read_rebalances, "b", None, 10) == []


def test_pages_of_rebalances_join_though_some_ended_in_the_same_millisecond(owner: Owner, query: Query) -> None:
    names = ["a", "b", "c", "d", "e"]
    rows = [rebalance_row(name, completed_at_ms=NOW_MS + number // 3) for number, name in enumerate(names)]
    snapshot = {"in_progress": IN_PROGRESS, "last_owners": []}
    owner.write(write(group=group_row(rebalance=snapshot), rebalances=tuple(rows)))
    pages: list[list[Rebalance]] = []
    after: RebalanceCursor | None = None
    while page := query(read_rebalances, "orders", after, 2):
        pages.append(page)
        after = rebalance_cursor(page[-1])
    assert [len(page) for page in pages] == [2, 2, 2]
    assert [each for page in pages for each in page] == query(read_rebalances, "orders", None, 10)
    assert {each.rebalance_id for page in pages for each in page} == {uuid_of(name) for name in [*names, "under way"]}


def test_parts_in_a_rebalance_come_by_how_long_each_was_waited_for(owner: Owner, query: Query) -> None:
    waits = {"a": 5, "b": 900, "c": 5}
    parts = [part_row(name, waited_for_ms=wait, joined_after_ms=None) for name, wait in waits.items()]
    other = part_row("z", "second", completed_at_ms=NOW_MS + 4_000)
    rebalances = (rebalance_row(), rebalance_row("second", completed_at_ms=NOW_MS + 4_000))
    owner.write(
        write(group=group_row(), rebalances=rebalances, rebalance_members=(*parts, other)),
        write("other", group=group_row("other")),
    )
    assert query(read_rebalance_members, "orders", uuid_of("first")) == [parts[1], parts[0], parts[2]]
    assert query(read_rebalance_members, "orders", uuid_of("second")) == [other]
    assert query(read_rebalance_members, "other", uuid_of("first")) == []
    assert query(read_rebalance_members, "orders", uuid_of("unheard of")) == []


# -- waits ------------------------------------------------------------------------------------------------


def test_waits_are_the_longest_of_one_group(owner: Owner, query: Query) -> None:
    late_ms = NOW_MS + 3_000
    parts = (
        part_row("m-1", client_id="present", waited_for_ms=7_000),
        part_row("m-2", client_id="gone", client_host="10.0.0.3", waited_for_ms=9_000, outcome="evicted"),
        part_row("m-3", client_id="static", waited_for_ms=8_000, group_instance_id="i"),
        part_row("m-4", client_id="prompt", waited_for_ms=4_999),
        part_row("m-1", "old", client_id="present", waited_for_ms=60_000, completed_at_ms=late_ms - 1),
    )
    owner.write(
        write(
            group=group_row(),
            rebalances=(rebalance_row(), rebalance_row("old", completed_at_ms=late_ms - 1)),
            rebalance_members=parts,
        ),
        write(
            "other",
            rebalances=(rebalance_row("else", "other"),),
            rebalance_members=(part_row("m-2", "else", group_id="other", waited_for_ms=90_000),),
        ),
    )
    first = uuid_of("first")
    waits = [
        RebalanceWait(first, "m-2", None, "gone", "10.0.0.3", 9_000, "evicted"),
        RebalanceWait(first, "m-3", "i", "static", "10.0.0.1", 8_000, "joined"),
        RebalanceWait(first, "m-1", None, "present", "10.0.0.1", 7_000, "joined"),
    ]
    long = WaitQuery("orders", late_ms, 5_000)
    assert query(read_waits, long, 10) == waits
    assert query(read_waits, long, 1) == waits[:1]
    assert query(read_waits, WaitQuery("nobody", late_ms, 0), 10) == []


# -- transitions ----------------------------------------------------------------------------------------


def test_transitions_come_newest_first_with_every_column(owner: Owner, query: Query) -> None:
    old, new = transition_row(), transition_row(at_ms=NOW_MS + 1, member_id=None, from_state=None)
    owner.write(write(transitions=(old, new)), write("other", transitions=(transition_row("other"),)))
    assert query(read_transitions, "orders", None, 10) == [new, old]


def test_simultaneous_transitions_are_ordered_by_state(owner: Owner, query: Query) -> None:
    life = [
        transition_row(from_state=None, to_state="Empty", generation=0),
        transition_row(from_state="Empty", to_state="PreparingRebalance", generation=0),
        transition_row(from_state="PreparingRebalance", to_state="CompletingRebalance", generation=1),
        transition_row(from_state="CompletingRebalance", to_state="Stable", generation=1),
        transition_row(from_state="Stable", to_state="PreparingRebalance", generation=1),
        transition_row(from_state="PreparingRebalance", to_state="Empty", generation=2),
        transition_row(from_state="Empty", to_state="Dead", generation=2),
        transition_row(from_state=None, to_state="Empty", generation=0, group_created_at_ms=NOW_MS + 1),
    ]
    owner.write(write(transitions=tuple(sorted(life, key=lambda row: row.to_state))))
    assert query(read_transitions, "orders", None, 10) == life[::-1]
    assert paged(query, 3) == life[::-1]


def paged(query: Query, limit: int) -> list[TransitionRow]:
    found: list[TransitionRow] = []
    after: TransitionCursor | None = None
    while page := query(read_transitions, "orders", after, limit):
        found += page
        after = cursor_of(page[-1])
    return found


# -- ownership --------------------------------------------------------------------------------------------


def span(since_ms: int = NOW_MS + 5_000, topic: str = "clicks", partitions: tuple[int, ...] = (1, 3)) -> object:
    return {
        "topic": topic,
        "partitions": list(partitions),
        "since_ms": since_ms,
        "generation": 2,
        "rebalance_id": uuid_of("second"),
    }


@pytest.fixture
def handed_over(owner: Owner) -> None:
    """Let m-1 hold 0 and 1 for five seconds, and m-2 hold 1 and 3 since."""
    owner.write(
        write(group=group_row(), members={"m-2": member_row("m-2", ownership=[span()])}, ownerships=(ownership_row(),)),
        write("other", group=group_row("other"), members={"x": member_row("x", "other", ownership=[span(NOW_MS)])}),
    )


BEFORE = PartitionOwnership("m-1", "clicks", (0, 1), 1, uuid_of("first"), NOW_MS, NOW_MS + 5_000)
SINCE = PartitionOwnership("m-2", "clicks", (1, 3), 2, uuid_of("second"), NOW_MS + 5_000, None)


@pytest.mark.usefixtures("handed_over")
@pytest.mark.parametrize(
    ("at_ms", "owned"),
    [
        (NOW_MS - 1, []),
        (NOW_MS, [BEFORE]),
        (NOW_MS + 4_999, [BEFORE]),
        (NOW_MS + 5_000, [SINCE]),
        (END_OF_TIME_MS, [SINCE]),
    ],
)
def test_a_partition_belongs_to_its_owner_from_the_first_moment_to_the_last(
    at_ms: int, owned: list[PartitionOwnership], query: Query
) -> None:
    assert query(read_ownership, Moment("orders", at_ms)) == owned


@pytest.mark.usefixtures("handed_over")
def test_ownership_can_be_asked_of_one_topic_or_partition(query: Query) -> None:
    assert query(read_ownership, Moment("orders", topic="clicks", partition=3)) == [SINCE._replace(partitions=(3,))]
    assert query(read_ownership, Moment("orders", NOW_MS, partition=1)) == [BEFORE._replace(partitions=(1,))]
    assert (
        query(read_ownership, Moment("orders", topic="views"))
        == query(read_ownership, Moment("orders", partition=0))
        == []
    )


def test_owners_come_by_topic_then_partition(owner: Owner, query: Query) -> None:
    held = {"m-1": [span(topic="B"), span(partitions=(7,))], "m-2": [span(topic="a"), span(partitions=(4, 9))]}
    members = {name: member_row(name, ownership=spans) for name, spans in held.items()}
    owner.write(write(group=group_row(), members=members))
    order = [(each.topic, each.partitions, each.member_id) for each in query(read_ownership, Moment("orders"))]
    assert order == [("B", (1, 3), "m-1"), ("a", (1, 3), "m-2"), ("clicks", (4, 9), "m-2"), ("clicks", (7,), "m-1")]


# -- what was committed -----------------------------------------------------------------------------------


def offsets_at(query: Query, at_ms: int, **apply_overrides: object) -> list[tuple[str, int, int]]:
    found = query(read_offsets_at, Moment("orders", at_ms, **apply_overrides))  # type: ignore[arg-type]  # each test gives what fits
    return [(each.topic, each.partition, each.offset) for each in found]


def test_committed_offset_is_reported_with_all_fields(owner: Owner, query: Query) -> None:
    first = committed(offset=5, log_end_offset=8)
    owner.write(write(committed=(first,)))
    owner.write(write(committed=(committed(offset=6, at_ms=NOW_MS + MINUTE_MS, member_id=""),)))
    assert query(read_offsets_at, Moment("orders")) == [OffsetAtTime("clicks", 0, 6, None, NOW_MS + MINUTE_MS, "")]
    assert query(read_offsets_at, Moment("orders", NOW_MS)) == [OffsetAtTime("clicks", 0, 5, 8, NOW_MS, "m-1")]


def test_last_committed_offset_of_every_minute_is_returned(owner: Owner, query: Query) -> None:
    for minute, offsets in enumerate(((10, 11), (20, 21), (30, 31))):
        for second, offset in enumerate(offsets):
            at_ms = NOW_MS + minute * MINUTE_MS + second * 1_000
            owner.write(write(committed=(committed(offset=offset, at_ms=at_ms),)))
    known = [offsets_at(query, NOW_MS + minute * MINUTE_MS + 1_000) for minute in range(3)]
    assert known == [[("clicks", 0, 11)], [("clicks", 0, 21)], [("clicks", 0, 31)]]
    assert offsets_at(query, NOW_MS) == []
    assert offsets_at(query, NOW_MS + MINUTE_MS) == [("clicks", 0, 11)]


def test_offset_deleted_later_is_returned_for_earlier_times(owner: Owner, store: Store, query: Query) -> None:
    owner.write(write(committed=(committed(offset=5),)))
    (stored,) = store.stored_offsets("orders")
    owner.write(write(removed=(removed(stored, at_ms=NOW_MS + 3 * MINUTE_MS),)))
    assert offsets_at(query, NOW_MS + 3 * MINUTE_MS - 1) == [("clicks", 0, 5)]
    assert offsets_at(query, NOW_MS + 3 * MINUTE_MS) == offsets_at(query, END_OF_TIME_MS) == []


def test_deleted_offset_is_absent_until_the_next_commit(owner: Owner, store: Store, query: Query) -> None:
    minutes = [NOW_MS + number * MINUTE_MS for number in range(5)]
    owner.write(write(committed=(committed(offset=1, at_ms=minutes[0]),)))
    owner.write(write(committed=(committed(offset=2, at_ms=minutes[1]),)))
    (stored,) = store.stored_offsets("orders")
    owner.write(write(removed=(removed(stored, at_ms=minutes[2]),)))
    owner.write(write(committed=(committed(offset=3, at_ms=minutes[3]),)))
    owner.write(write(committed=(committed(offset=4, at_ms=minutes[4]),)))
    assert [[offset for _, _, offset in offsets_at(query, at_ms)] for at_ms in minutes] == [[1], [2], [], [3], [4]]


def test_positions_can_be_asked_of_one_topic_or_partition(owner: Owner, query: Query) -> None:
    for minute in (0, 1):
        offsets = [
            committed(topic, partition, 10 * minute + partition, at_ms=NOW_MS + minute * MINUTE_MS)
            for topic in ("b", "A")
            for partition in (1, 0)
        ]
        owner.write(write(committed=tuple(offsets)))
    for at_ms, tens in ((NOW_MS, 0), (END_OF_TIME_MS, 10)):
        everything = [("A", 0, tens), ("A", 1, tens + 1), ("b", 0, tens), ("b", 1, tens + 1)]
        assert offsets_at(query, at_ms) == everything
        assert offsets_at(query, at_ms, topic="b") == everything[2:]
        assert offsets_at(query, at_ms, partition=1) == everything[1::2]
        assert offsets_at(query, at_ms, topic="A", partition=1) == everything[1:2]


# -- known groups -----------------------------------------------------------------------------------------


def test_group_is_known_during_and_after_its_lifetime(owner: Owner, query: Query) -> None:
    owner.write(
        write("stands", group=group_row("stands")),
        write("gone", transitions=(transition_row("gone"),)),
        write("commits only", committed=(committed(),)),
    )
    assert [query(read_rebalances, group_id, None, 9) for group_id in ("stands", "gone")] == [[], []]
    for group_id in ("unheard", "commits only"):
        with pytest.raises(GroupIdNotFound):
            query(read_rebalances, group_id, None, 9)


# -- how far groups are behind ------------------------------------------------------------------------------


def test_committed_offsets_of_groups_are_summed_by_topic(owner: Owner, query: Query) -> None:
    largest = 2**63 - 1
    owner.write(
        write(
            committed=(
                committed(partition=0, offset=5, log_end_offset=15),
                committed(partition=1, offset=9, log_end_offset=8, at_ms=NOW_MS + 7),
                committed(partition=2, offset=1),
                committed("views", offset=largest),
                committed("views", partition=1, offset=largest),
            )
        ),
        write("B", shard_id=3, committed=(committed(),)),
        write("elsewhere", shard_id=4, committed=(committed(),)),
    )
    assert query(read_offset_totals, [3, SHARD], 0, by_partition=False) == [
        OffsetTotal("B", "clicks", None, 1, 1, None, NOW_MS, None),
        OffsetTotal("orders", "clicks", None, 3, 15, 10, NOW_MS + 7, NOW_MS),
        OffsetTotal("orders", "views", None, 2, 2 * largest, None, NOW_MS, None),
    ]
    assert query(read_offset_totals, [], 0, by_partition=False) == []


def test_committed_offsets_of_groups_are_returned_by_partition(owner: Owner, query: Query) -> None:
    offsets = (committed(partition=10, offset=5, log_end_offset=15), committed(partition=9, offset=1))
    owner.write(write(committed=offsets))
    assert query(read_offset_totals, [SHARD], 0, by_partition=True) == [
        OffsetTotal("orders", "clicks", 9, 1, 1, None, NOW_MS, None),
        OffsetTotal("orders", "clicks", 10, 1, 5, 10, NOW_MS, NOW_MS),
    ]
