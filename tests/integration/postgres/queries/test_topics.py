"""Contract tests: the list of topics; the partitions of a topic, and the groups that read it."""

import pytest
from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name

from coordinator_core.queries.group_patterns import GroupPatterns
from coordinator_core.queries.topics import (
    TOPIC_GROUPS_MAX,
    TopicGroup,
    TopicOverviewFilter,
    TopicPartition,
    TopicSummary,
    TopicTotal,
    TopicUse,
    read_topic_overview,
    read_topic_use,
)
from coordinator_core.state_store.log_ends import LogEndReport
from tests.support.store_rows import NOW_MS, committed, group_row, rebalance_row, write
from tests.support.store_worlds import Owner, Query, World

HOUR_MS = 3_600_000


def look(query: Query, topic: str, *, patterns: GroupPatterns | None = None, fresh_since_ms: int = 0) -> TopicUse:
    return query(read_topic_use, topic, patterns=patterns, fresh_since_ms=fresh_since_ms)


@pytest.fixture
def read_by_three(owner: Owner) -> None:
    """Commit to clicks by a group that subscribes and by one without members; a third group only subscribes."""
    subscribed = {"subscribed_topics": ("clicks", "views")}
    owner.write(
        write("behind", group=group_row("behind", member_count=2, **subscribed)),
        write("idle", group=group_row("idle", **subscribed)),
        write("elsewhere", group=group_row("elsewhere", subscribed_topics=("views",))),
    )
    offsets = (committed(offset=5, log_end_offset=20), committed(partition=1, offset=7))
    owner.write(write("behind", committed=offsets), write("simple", committed=(committed(offset=18),)))
    owner.write(write("elsewhere", committed=(committed(topic="views", offset=1),)))


def test_groups_are_listed_with_their_lag_in_the_topic(read_by_three: None, query: Query) -> None:
    use = look(query, "clicks")
    assert use.groups == [
        TopicGroup("behind", "Stable", 2, True, 2, NOW_MS, 15, False, NOW_MS, 0),
        TopicGroup("idle", "Stable", 1, True, 0, None, None, False, None, 0),
        TopicGroup("simple", None, 0, False, 1, NOW_MS, None, False, None, 0),
    ]
    assert use.partitions == [TopicPartition(0, 20, NOW_MS, 2), TopicPartition(1, None, None, 1)]
    assert (use.partition_count, use.log_start_offset) == (None, None)


def test_rebalances_of_the_last_hour_are_counted(owner: Owner, read_by_three: None, query: Query, world: World) -> None:
    ended = [world.today_ms(), world.today_ms() - 1, world.today_ms() - 2 * HOUR_MS]
    rows = tuple(rebalance_row(f"r-{number}", "behind", completed_at_ms=at) for number, at in enumerate(ended))
    former = rebalance_row("former", "behind", completed_at_ms=ended[0], group_created_at_ms=NOW_MS - 1)
    owner.write(write("behind", rebalances=(*rows, former)))
    assert [group.rebalances_last_hour for group in look(query, "clicks").groups] == [2, 0, 0]


def test_a_trusted_report_counts_for_every_group(owner: Owner, read_by_three: None, query: Query) -> None:
    owner.store.report_log_ends([LogEndReport("clicks", 0, 30, NOW_MS + 5)], 0)
    use = look(query, "clicks")
    assert use.partitions[0] == TopicPartition(0, 30, NOW_MS + 5, 2)
    assert {group.group_id: group.lag for group in use.groups} == {"behind": 25, "simple": 12, "idle": None}


def test_a_stale_log_end_is_a_lower_bound(read_by_three: None, query: Query) -> None:
    behind = look(query, "clicks", fresh_since_ms=NOW_MS + 1).groups[0]
    assert (behind.group_id, behind.lag, behind.is_lag_lower_bound) == ("behind", 15, True)


def test_patterns_select_groups_and_what_they_reported(read_by_three: None, query: Query) -> None:
    use = look(query, "clicks", patterns=GroupPatterns(("sim%",)))
    assert [group.group_id for group in use.groups] == ["simple"]
    assert use.partitions == [TopicPartition(0, None, None, 1)]


def test_unknown_topic_is_empty(read_by_three: None, query: Query) -> None:
    assert look(query, "no such") == TopicUse(None, None, [], [], TopicTotal())


def test_groups_that_are_not_listed_count_in_the_total(owner: Owner, query: Query) -> None:
    offsets = (committed(offset=5, log_end_offset=20),)
    owner.write(*[write(f"group-{number}", committed=offsets) for number in range(TOPIC_GROUPS_MAX + 1)])
    use = look(query, "clicks")
    assert len(use.groups) == TOPIC_GROUPS_MAX
    assert use.total == TopicTotal(TOPIC_GROUPS_MAX + 1, 15 * (TOPIC_GROUPS_MAX + 1), False, NOW_MS)


def test_total_is_a_lower_bound_if_the_lag_of_a_group_is(read_by_three: None, query: Query) -> None:
    assert look(query, "clicks").total == TopicTotal(3, 15, False, NOW_MS)
    assert look(query, "clicks", fresh_since_ms=NOW_MS + 1).total == TopicTotal(3, 15, True, NOW_MS)
    at_end = look(query, "clicks", patterns=GroupPatterns(("sim%",)), fresh_since_ms=NOW_MS + 1).total
    assert at_end == TopicTotal(1, None, False, None)


# -- the list ------------------------------------------------------------------------------------------------


def topics_of(query: Query, **which: object) -> list[str]:
    overview = query(read_topic_overview, TopicOverviewFilter(**which))  # type: ignore[arg-type]  # each test gives what fits
    return [each.topic for each in overview.topics]


@pytest.fixture
def with_metadata(owner: Owner, read_by_three: None, sql_connection: PsycopgConnection) -> None:
    """Add the metadata of clicks, and of a topic that no group reads; views have the highest lag."""
    with sql_connection.cursor() as cursor:
        cursor.execute("INSERT INTO topics (topic, partitions, version) VALUES ('clicks', 8, 1), ('Unread', 2, 1)")
    owner.store.report_log_ends([LogEndReport("views", 0, 90, NOW_MS)], 0)


def test_topics_are_listed_the_highest_lag_first(with_metadata: None, query: Query) -> None:
    overview = query(read_topic_overview, TopicOverviewFilter())
    assert overview.topic_count == 3
    assert overview.topics == [
        TopicSummary(-89, "views", None, 3, 89, False, NOW_MS),
        TopicSummary(-15, "clicks", 8, 3, 15, False, NOW_MS),
        TopicSummary(1, "Unread", 2, 0, None, False, None),
    ]


def test_lag_of_a_topic_is_a_lower_bound_while_a_log_end_is_stale(with_metadata: None, query: Query) -> None:
    views = query(read_topic_overview, TopicOverviewFilter(fresh_since_ms=NOW_MS + 1)).topics[0]
    assert (views.topic, views.lag, views.is_lag_lower_bound) == ("views", 89, True)


def test_topics_are_filtered_and_paged(with_metadata: None, query: Query) -> None:
    assert topics_of(query, text="CLI") == ["clicks"]
    assert topics_of(query, text="no such") == []
    assert topics_of(query, limit=2) == ["views", "clicks"]
    assert topics_of(query, limit=2, after=(-89, "views")) == ["clicks", "Unread"]
    assert query(read_topic_overview, TopicOverviewFilter(text="no such")).topic_count == 0


def test_topics_of_some_groups_count_these_groups_only(with_metadata: None, query: Query) -> None:
    topics = query(read_topic_overview, TopicOverviewFilter(patterns=GroupPatterns(("sim%", "id%")))).topics
    assert [(each.topic, each.group_count, each.lag) for each in topics] == [
        ("Unread", 0, None),
        ("clicks", 2, None),
        ("views", 1, None),
    ]
