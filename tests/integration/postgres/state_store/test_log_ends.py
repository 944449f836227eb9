"""Contract tests: log ends never decrease, have an age and a history, and are deleted with their topic."""

from itertools import count

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from coordinator_core.protocol.log_ends import LogEnd
from coordinator_core.queries.committed_offsets import (
    PastLogEnd,
    TimeRange,
    read_group_offsets,
    read_lagging,
    read_past_log_ends,
)
from coordinator_core.queries.offset_totals import read_offset_totals
from coordinator_core.queries.overview import OverviewFilter, read_overview
from coordinator_core.state_store.interface import Store
from coordinator_core.state_store.log_ends import NEVER_REPORTED_MS, LogEndReport
from coordinator_core.state_store.postgres import PostgresStore
from tests.integration.postgres.queries.offset_model import OffsetModel
from tests.support.store_rows import MINUTE_MS, NOW_MS, SHARD, change_row, committed, group_row, removed, write
from tests.support.store_worlds import Owner, Query, World

NO_EXPIRY = 10**9
EXAMPLES = count()


def minute(number: int) -> int:
    return NOW_MS - NOW_MS % MINUTE_MS + number * MINUTE_MS


def report(store: Store, end: int, at_ms: int, topic: str = "clicks", partition: int = 0) -> None:
    assert store.report_log_ends([LogEndReport(topic, partition, end, at_ms)], store.versions().log_end_deletions)


def test_log_end_never_decreases_and_has_the_age_of_its_last_report(store: Store) -> None:
    for end, at_ms, found in (
        (10, NOW_MS, (10, NOW_MS)),
        (10, NOW_MS + 5, (10, NOW_MS + 5)),
        (9, NOW_MS + 6, (10, NOW_MS + 5)),
        (10, NOW_MS + 2, (10, NOW_MS + 5)),
        (12, NOW_MS + 1, (12, NOW_MS + 5)),
        (2**63 - 1, NOW_MS + 7, (2**63 - 1, NOW_MS + 7)),
    ):
        report(store, end, at_ms)
        assert store.log_ends(["clicks", "views"]) == {("clicks", 0): LogEnd(found[1], found[0])}
    assert store.log_ends([]) == {}


def test_what_was_committed_moves_an_end_that_was_reported_and_makes_none(store: Store) -> None:
    report(store, 10, NEVER_REPORTED_MS)
    assert store.log_ends(["clicks"]) == {}
    report(store, 5, NOW_MS)
    report(store, 10, NEVER_REPORTED_MS)
    assert store.log_ends(["clicks"]) == {("clicks", 0): LogEnd(NOW_MS, 10)}


def test_history_has_the_last_end_of_each_minute(owner: Owner, store: Store, query: Query) -> None:
    owner.write(write(committed=(committed(), committed(partition=1))))
    for number, end in ((0, 5), (0, 6), (1, 6), (3, 9)):
        report(store, end, minute(number) + end)
    report(store, 7, minute(1), partition=1)
    report(store, 7, minute(1), topic="views")
    whole = TimeRange("orders", minute(0), minute(9), MINUTE_MS)
    assert query(read_past_log_ends, whole, NO_EXPIRY) == [
        PastLogEnd("clicks", 0, minute(0) + 6, 6),
        PastLogEnd("clicks", 0, minute(1) + 6, 6),
        PastLogEnd("clicks", 0, minute(3) + 9, 9),
        PastLogEnd("clicks", 1, minute(1), 7),
    ]
    assert query(read_past_log_ends, whole, 2) == query(read_past_log_ends, whole, NO_EXPIRY)[:2]
    early = TimeRange("orders", minute(1), minute(3), MINUTE_MS)
    assert [each.log_end_offset for each in query(read_past_log_ends, early, NO_EXPIRY)] == [6, 7]


def test_a_report_that_is_behind_leaves_the_last_one_and_its_past_alone(
    owner: Owner, store: Store, query: Query
) -> None:
    owner.write(write(committed=(committed(),)))
    for end, at_ms in ((5, minute(0)), (4, minute(1)), (7, NEVER_REPORTED_MS)):
        report(store, end, at_ms)
    past = query(read_past_log_ends, TimeRange("orders", minute(0), minute(9), MINUTE_MS), NO_EXPIRY)
    assert past == [PastLogEnd("clicks", 0, minute(0), 7)]
    assert query(read_group_offsets, "orders", 0).partitions[0].ends == (LogEnd(minute(0), 7),)


def test_deletion_of_a_topic_deletes_its_log_ends_and_their_history(owner: Owner, store: Store, query: Query) -> None:
    store.put_topic("clicks", 1, None, change_row("put"))
    owner.write(write(committed=(committed(),)))
    for number in range(3):
        report(store, 100 + number, minute(number))
    store.delete_topic("clicks", change_row("delete"))
    assert store.log_ends(["clicks"]) == {}
    report(store, 4, minute(5))
    report(store, 8, minute(6))
    assert [
        each.log_end_offset
        for each in query(read_past_log_ends, TimeRange("orders", minute(0), minute(9), MINUTE_MS), 9)
    ] == [4, 8]
    assert query(read_group_offsets, "orders", 0).partitions[0].ends == (LogEnd(minute(5), 4), LogEnd(minute(6), 8))


def test_what_a_group_reported_before_a_deletion_does_not_count(owner: Owner, store: Store, query: Query) -> None:
    """The topic was created again, and its log passed the same offsets later."""
    store.put_topic("clicks", 1, None, change_row("put"))
    for number, (offset, end) in enumerate(((8, 8), (45, 50), (95, 100), (5, 20), (10, 60))):
        if number == 3:
            store.delete_topic("clicks", change_row("delete"))
        owner.write(write(committed=(committed(offset=offset, log_end_offset=end, at_ms=minute(number)),)))
        report(store, end, minute(number))
    assert query(read_group_offsets, "orders", 0).partitions[0].ends == (LogEnd(minute(3), 20), LogEnd(minute(4), 60))


def test_reports_from_before_a_deletion_are_rejected(store: Store) -> None:
    store.put_topic("clicks", 1, None, change_row("put"))
    known = store.versions().log_end_deletions
    store.delete_topic("clicks", change_row("delete"))
    assert not store.report_log_ends([LogEndReport(topic, 0, 5, NOW_MS) for topic in ("clicks", "views")], known)
    assert store.log_ends(["clicks", "views"]) == {}


def test_a_deletion_of_ends_takes_what_it_names_with_its_past_and_records_what_it_was(
    owner: Owner, store: Store, query: Query
) -> None:
    owner.write(write(committed=(committed(), committed(partition=1), committed("views"))))
    for number, end in ((0, 50), (1, 2**63 - 1)):
        for topic, partition in (("clicks", 0), ("clicks", 1), ("views", 0)):
            report(store, end, minute(number), topic, partition)
    before = store.versions().log_end_deletions
    change = store.delete_log_ends("clicks", 1, change_row("one", action="delete_log_ends"))
    assert change.before == {
        "topic": "clicks",
        "log_ends": [{"partition": 1, "log_end_offset": 2**63 - 1, "reported_at_ms": minute(1)}],
    }
    assert change.after == {"topic": "clicks", "partition": 1}
    assert sorted(store.log_ends(["clicks", "views"])) == [("clicks", 0), ("views", 0)]
    assert store.delete_log_ends("clicks", 1, change_row("one", action="delete_log_ends")) == change
    assert store.versions().log_end_deletions == before + 1

    whole = store.delete_log_ends("clicks", None, change_row("all", action="delete_log_ends"))
    assert [each["partition"] for each in whole.before["log_ends"]] == [0]
    nothing = store.delete_log_ends("clicks", None, change_row("none", action="delete_log_ends"))
    assert nothing.before == {"topic": "clicks", "log_ends": []}
    report(store, 7, minute(2))
    past = query(read_past_log_ends, TimeRange("orders", minute(0), minute(9), MINUTE_MS), NO_EXPIRY)
    assert [(each.topic, each.log_end_offset) for each in past if each.topic == "clicks"] == [("clicks", 7)]


def test_lag_in_lists_goes_by_the_furthest_end_and_its_age(owner: Owner, store: Store, query: Query) -> None:
    owner.write(write("stuck", group=group_row("stuck"), committed=(committed(offset=4, log_end_offset=4),)))
    owner.write(write("silent", group=group_row("silent"), committed=(committed(offset=9),)))
    report(store, 9, NOW_MS + 7)

    def found(fresh_since_ms: int) -> list[tuple[str, int | None, bool, int | None]]:
        glances = query(read_overview, OverviewFilter(fresh_since_ms=fresh_since_ms)).groups
        positions = query(read_offset_totals, [SHARD], fresh_since_ms, by_partition=True)
        assert {each.group_id: (each.lag_records, each.log_end_at_ms) for each in positions} == {
            each.group_id: (each.lag, each.log_end_at_ms) for each in glances
        }
        listed = [(one.group_id, one.lag, one.is_lag_lower_bound, one.log_end_at_ms) for one in glances]
        return sorted(listed)

    assert found(NOW_MS) == [("silent", 0, False, NOW_MS + 7), ("stuck", 5, False, NOW_MS + 7)]
    assert found(NOW_MS + 8) == [("silent", None, True, NOW_MS + 7), ("stuck", 5, True, NOW_MS + 7)]


def test_an_end_that_came_with_an_earlier_commit_keeps_its_age(
    owner: Owner, store: Store, world: World, query: Query
) -> None:
    restored = replace(committed(offset=4, log_end_offset=9, at_ms=NOW_MS), log_end_at_ms=NOW_MS - 50)
    owner.write(write(committed=(restored,)))
    (stored,) = store.stored_offsets("orders")
    assert (stored.log_end_at_ms, stored.log_end) == (NOW_MS - 50, LogEnd(NOW_MS - 50, 9))
    assert query(read_group_offsets, "orders", 0).partitions[0].ends == (LogEnd(NOW_MS - 50, 9),)

    owner.write(write(committed=(committed(offset=5, log_end_offset=9, at_ms=NOW_MS + MINUTE_MS),)))
    assert [each.log_end_offset for each in world.history().offset_history] == [None]
    (stored,) = store.stored_offsets("orders")
    assert stored.log_end_at_ms is None

    owner.write(write(committed=(replace(restored, at_ms=NOW_MS + MINUTE_MS + 1),)))
    (stored,) = store.stored_offsets("orders")
    owner.write(write(removed=(removed(stored, "change"),)))
    assert [each.log_end_at_ms for each in world.history().archived] == [NOW_MS - 50]


EVENTS = st.lists(
    st.tuples(st.booleans(), st.integers(0, 12), st.none() | st.integers(0, 15), st.integers(0, 3)), max_size=12
)
"""Whether it is a trusted report or a commit, an offset, a reported end, and minutes that pass first."""


@given(
    events=EVENTS, since=st.integers(0, 9), first=st.integers(-3, 9), length=st.integers(0, 9), step=st.integers(1, 3)
)
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_queries_return_what_was_committed_and_reported(
    postgres_store: PostgresStore,
    events: list[tuple[bool, int, int | None, int]],
    since: int,
    first: int,
    length: int,
    step: int,
    query: Query,
) -> None:
    number = next(EXAMPLES)
    group_id, topic = f"life-{number}", f"topic-{number}"
    time_range = TimeRange(group_id, minute(first), minute(first + length), step * MINUTE_MS, minute(first + 2))
    model, owner, now = OffsetModel(group_id, topic), Owner(postgres_store), 0
    for is_report, offset, end, minutes in events:
        now += minutes
        if is_report:
            log_end = max(offset, end or 0)
            report(postgres_store, log_end, NEVER_REPORTED_MS if end is None else minute(now), topic)
            model.report(log_end, None if end is None else minute(now))
        else:
            owner.write(
                write(group_id, committed=(committed(topic, 0, offset, log_end_offset=end, at_ms=minute(now)),))
            )
            model.commit(0, offset, end, minute(now))
    since_ms = minute(since)
    lagging = [each for each in query(read_lagging, [SHARD], since_ms) if each.group_id == group_id]
    totals = query(read_offset_totals, [SHARD], since_ms, by_partition=False)
    assert query(read_group_offsets, group_id, since_ms) == model.group_offsets(since_ms)
    assert lagging == model.lagging(since_ms)
    assert [each for each in totals if each.group_id == group_id] == model.totals(since_ms)
    assert query(read_past_log_ends, time_range, NO_EXPIRY) == model.past_log_ends(time_range)
