"""Contract tests: a group's committed offsets and lag, now and over time."""

from dataclasses import replace
from itertools import count

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from coordinator_core.protocol.errors import InvalidRequest
from coordinator_core.protocol.log_ends import LOG_END_MAX_AGE_MS, LogEnd
from coordinator_core.protocol.retention import NO_GROUP, GroupFacts
from coordinator_core.protocol.states import GroupState
from coordinator_core.queries.committed_offsets import (
    LaggingOffset,
    PartitionOffset,
    PastOffset,
    TimeRange,
    read_group_offsets,
    read_lagging,
    read_past_offsets,
)
from coordinator_core.queries.lag import SampleTimes, read_lag_history
from coordinator_core.state_store.interface import Store
from coordinator_core.state_store.log_ends import LogEndReport
from coordinator_core.state_store.postgres import PostgresStore
from tests.integration.postgres.queries.offset_model import OffsetModel
from tests.support.store_rows import MINUTE_MS, NOW_MS, SHARD, committed, group_row, member_row, removed, uuid_of, write
from tests.support.store_worlds import Owner, Query

NO_EXPIRY = 10**6


def span(*partitions: int, topic: str = "clicks") -> object:
    return {
        "topic": topic,
        "partitions": list(partitions),
        "since_ms": NOW_MS,
        "generation": 1,
        "rebalance_id": uuid_of("first"),
    }


def minute(number: int) -> int:
    return NOW_MS + number * MINUTE_MS


def commits(owner: Owner, *positions: tuple[int, int | None], partition: int = 0) -> None:
    """Commit an offset, and the end that comes with it, in one minute after the other."""
    for number, (offset, end) in enumerate(positions):
        record = committed(partition=partition, offset=offset, log_end_offset=end, at_ms=minute(number))
        owner.write(write(committed=(record,)))


def only(query: Query, since_ms: int = 0) -> PartitionOffset:
    (found,) = query(read_group_offsets, "orders", since_ms).partitions
    return found


# -- now --------------------------------------------------------------------------------------------------


def test_partitions_are_listed_if_committed_or_owned(owner: Owner, query: Query) -> None:
    members = {
        "m-1": member_row("m-1", ownership=[span(2, 0)]),
        "m-2": member_row("m-2", client_id="b", ownership=[span(7, topic="B")]),
    }
    offsets = (committed(partition=2, offset=5, log_end_offset=9, expires_at_ms=NOW_MS + 1), committed(partition=10))
    owner.write(write(group=group_row(), members=members, committed=offsets), write("other", committed=(committed(),)))
    found = query(read_group_offsets, "orders", 0)
    assert found.facts == GroupFacts(GroupState.STABLE, "consumer", NOW_MS, frozenset({"clicks"}))
    assert found.partitions == [
        PartitionOffset("B", 7, "m-2", "b", None, None, None, ()),
        PartitionOffset("clicks", 0, "m-1", "client", None, None, None, ()),
        PartitionOffset("clicks", 2, "m-1", "client", 5, NOW_MS, NOW_MS + 1, (LogEnd(NOW_MS, 9),)),
        PartitionOffset("clicks", 10, None, None, 1, NOW_MS, None, ()),
    ]


def test_a_group_without_a_row_is_a_simple_one_with_its_offsets(owner: Owner, query: Query) -> None:
    owner.write(write(committed=(committed(),)))
    assert query(read_group_offsets, "orders", 0).facts == NO_GROUP
    assert query(read_group_offsets, "unheard", 0).partitions == []


def test_log_ends_around_the_offset_and_the_last_are_returned(owner: Owner, query: Query) -> None:
    commits(owner, (10, 10), (12, 20), (14, 30), (16, 40), (18, 50))
    assert only(query).ends == (LogEnd(minute(0), 10), LogEnd(minute(1), 20), LogEnd(minute(4), 50))


def test_an_end_at_the_very_position_is_reached(owner: Owner, query: Query) -> None:
    commits(owner, (5, 10), (6, 20), (20, 30))
    assert only(query).ends == (LogEnd(minute(1), 20), LogEnd(minute(2), 30))


def test_old_reports_are_ignored(owner: Owner, query: Query) -> None:
    commits(owner, (10, 10), (12, 20), (14, 30), (16, 40))
    assert only(query, minute(2)).ends == (LogEnd(minute(2), 30), LogEnd(minute(3), 40))


def test_own_report_is_sufficient_for_a_caught_up_offset(owner: Owner, query: Query) -> None:
    commits(owner, (10, 20), (30, 25))
    assert only(query).ends == (LogEnd(minute(1), 30),)


def test_no_end_counts_beyond_the_known_one(owner: Owner, store: Store, query: Query) -> None:
    """A topic that was created again, or a reporter that was wrong: lists and views compute lag from the known end."""
    commits(owner, (5, 10), (90, 100), (20, 30))
    assert only(query).ends == (LogEnd(minute(0), 10), LogEnd(minute(2), 30))
    assert query(read_lagging, [SHARD], 0)[0].ends == only(query).ends
    store.report_log_ends([LogEndReport("clicks", 0, 40, minute(1))], 0)
    assert only(query).ends == (LogEnd(minute(0), 10), LogEnd(minute(1), 40))


def test_after_a_commit_without_an_end_only_trusted_reports_count(owner: Owner, store: Store, query: Query) -> None:
    commits(owner, (10, 12), (12, 20), (14, None))
    assert only(query).ends == ()
    store.report_log_ends([LogEndReport("clicks", 0, 18, minute(1))], 0)
    assert only(query).ends == (LogEnd(minute(1), 18),)


def test_offsets_with_lag_are_returned_by_shard(owner: Owner, query: Query) -> None:
    commits(owner, (10, 10), (12, 20), (14, 30))
    commits(owner, (9, 8), partition=1)
    commits(owner, (9, None), partition=2)
    owner.write(write("B", shard_id=3, committed=(committed(log_end_offset=4),)))
    owner.write(write("elsewhere", shard_id=4, committed=(committed(log_end_offset=4),)))
    assert query(read_lagging, [3, SHARD], 0) == [
        LaggingOffset("B", "clicks", 0, 1, (LogEnd(NOW_MS, 4),)),
        LaggingOffset("orders", "clicks", 0, 14, (LogEnd(minute(0), 10), LogEnd(minute(1), 20), LogEnd(minute(2), 30))),
    ]
    assert query(read_lagging, [SHARD], minute(1))[0].ends == (LogEnd(minute(1), 20), LogEnd(minute(2), 30))
    assert query(read_lagging, [], 0) == []


# -- over time --------------------------------------------------------------------------------------------


def past(query: Query, first: int, last: int, step: int = 1, limit: int = NO_EXPIRY) -> list[PastOffset]:
    return query(read_past_offsets, TimeRange("orders", minute(first), minute(last), step * MINUTE_MS), limit)


def test_committed_offsets_are_returned_by_partition_and_time(owner: Owner, query: Query) -> None:
    commits(owner, (1, 4), (2, None), (9, 8), partition=1)
    commits(owner, (5, 6))
    owner.write(write("other", committed=(committed(),)))
    assert past(query, 0, 9) == [
        PastOffset("clicks", 0, minute(0), 5, 6),
        PastOffset("clicks", 1, minute(0), 1, 4),
        PastOffset("clicks", 1, minute(1), 2, None),
        PastOffset("clicks", 1, minute(2), 9, 9),
    ]
    assert past(query, 0, 9, limit=2) == past(query, 0, 9)[:2]


def test_first_point_uses_the_offset_before_it(owner: Owner, query: Query) -> None:
    commits(owner, (1, 1), (2, 2), (3, 3), (4, 4))
    assert [each.offset for each in past(query, 2, 3)] == [2, 3]
    assert [each.offset for each in past(query, 8, 9)] == [4]
    assert past(query, -5, 0) == []


def test_last_offset_of_every_step_is_returned(owner: Owner, query: Query) -> None:
    commits(owner, *((offset, None) for offset in range(10)))
    minutes = [each.at_ms // MINUTE_MS % 5 for each in past(query, 0, 99, step=5)]
    assert minutes[:-1] == [4] * (len(minutes) - 1)
    assert len(minutes) in {2, 3}


def test_steps_before_the_first_point_are_longer(owner: Owner, query: Query) -> None:
    commits(owner, *((offset, None) for offset in range(40)))
    fine = TimeRange("orders", minute(0), minute(40), MINUTE_MS)
    found = query(read_past_offsets, replace(fine, coarse_until_ms=minute(20)), NO_EXPIRY)
    assert [each.offset for each in found if each.at_ms >= minute(20)] == list(range(20, 40))
    assert [each.offset for each in found if each.at_ms < minute(20)] == [2, 6, 10, 14, 18, 19]


def remove(owner: Owner, store: Store, number: int) -> None:
    """Remove the offset of the only partition in a minute."""
    (stored,) = store.stored_offsets("orders")
    owner.write(write(removed=(removed(stored, at_ms=minute(number)),)))


def test_an_offset_that_was_removed_counts_until_then(owner: Owner, store: Store, query: Query) -> None:
    commits(owner, (1, 5), (2, 5))
    remove(owner, store, 3)
    assert [(each.at_ms, each.offset) for each in past(query, 0, 9)] == [
        (minute(0), 1),
        (minute(1), 2),
        (minute(3), None),
    ]
    assert [each.offset for each in past(query, 1, 9)] == [1, 2, None]
    assert [each.offset for each in past(query, 2, 9)] == [2, None]
    assert [each.offset for each in past(query, 2, 3)] == [2]


def test_an_offset_that_was_reset_counts_until_then(owner: Owner, store: Store, query: Query) -> None:
    commits(owner, (1, 5), (8, 9))
    (stored,) = store.stored_offsets("orders")
    reset = removed(stored, at_ms=minute(3), cause="reset")
    owner.write(write(removed=(reset,), committed=(committed(offset=0, at_ms=minute(3)),)))
    assert [each.offset for each in past(query, 0, 9)] == [1, 8, 0]
    assert [each.offset for each in past(query, 2, 9)] == [8, 0]


def test_an_offset_that_was_removed_before_does_not_count_for_the_next_one(
    owner: Owner, store: Store, query: Query
) -> None:
    commits(owner, (1, 5), (2, 5))
    remove(owner, store, 3)
    owner.write(write(committed=(committed(offset=7, at_ms=minute(6)),)))
    assert [each.offset for each in past(query, 5, 9)] == [7]


# -- twins ------------------------------------------------------------------------------------------------

COMMITS = st.lists(
    st.tuples(st.integers(0, 1), st.integers(0, 12), st.none() | st.integers(0, 15), st.integers(0, 3)),
    min_size=1,
    max_size=12,
)
"""Partition, offset, reported end, and minutes that pass first."""
EXAMPLES = count()


@given(
    commits=COMMITS,
    since=st.integers(0, 9),
    first=st.integers(-3, 9),
    length=st.integers(0, 9),
    step=st.integers(1, 3),
    early=st.integers(-4, 12),
)
@example(commits=[(0, 0, None, 1), (0, 0, None, 4), (0, 0, None, 1)], since=0, first=6, length=1, step=2, early=0)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_queries_return_what_was_committed(
    postgres_store: PostgresStore,
    commits: list[tuple[int, int, int | None, int]],
    since: int,
    first: int,
    length: int,
    step: int,
    early: int,
    query: Query,
) -> None:
    group_id = f"life-{next(EXAMPLES)}"
    time_range = TimeRange(group_id, minute(first), minute(first + length), step * MINUTE_MS, minute(early))
    model, owner, now = OffsetModel(group_id, "clicks"), Owner(postgres_store), 0
    for partition, offset, end, minutes in commits:
        now += minutes
        record = committed(partition=partition, offset=offset, log_end_offset=end, at_ms=minute(now))
        owner.write(write(group_id, committed=(record,)))
        model.commit(partition, offset, end, minute(now))
    lagging = [each for each in query(read_lagging, [SHARD], minute(since)) if each.group_id == group_id]
    assert query(read_group_offsets, group_id, minute(since)) == model.group_offsets(minute(since))
    assert lagging == model.lagging(minute(since))
    assert query(read_past_offsets, time_range, NO_EXPIRY) == model.past_offsets(time_range)


def test_lag_history_of_more_partitions_than_offsets_may_be_read_is_refused(owner: Owner, query: Query) -> None:
    for partition in range(3):
        commits(owner, (5, 6), partition=partition)
    points = SampleTimes(minute(0), minute(9), MINUTE_MS)
    found = query(read_lag_history, "orders", points, max_offsets=100, max_age_ms=LOG_END_MAX_AGE_MS)
    assert [each.lag and each.lag.records for each in found] == [3] * len(points)
    with pytest.raises(InvalidRequest, match="more than 2 committed offsets"):
        query(read_lag_history, "orders", points, max_offsets=2, max_age_ms=LOG_END_MAX_AGE_MS)
