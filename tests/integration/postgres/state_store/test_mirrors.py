"""Contract tests: a database mirrors one cluster, and stores how far its log was read with what was read."""

from coordinator_core.protocol.log_ends import LogEnd
from coordinator_core.state_store.interface import Store
from coordinator_core.state_store.log_ends import LogEndReport
from coordinator_core.state_store.rows import MirrorPosition, TopicRow
from tests.support.store_rows import NOW_MS, SHARD, group_row, loaded, member_row, write
from tests.support.store_worlds import NODE, TTL_MS, Owner, World

POSITION = MirrorPosition(SHARD, base=100, groups_seq=107, offsets_seq=105, read_at_ms=NOW_MS)


def test_empty_database_becomes_the_mirror_of_one_cluster(store: Store) -> None:
    assert store.mirrored_cluster() is None

    assert store.mirror_of("a") == "a"
    assert store.mirror_of("b", "poll") == store.mirrored_cluster() == "a"
    assert store.mirror_source() == "topic"


def test_database_keeps_the_source_that_it_was_made_with(store: Store) -> None:
    assert store.mirror_source() is None

    store.mirror_of("a", "poll")

    assert store.mirror_source() == "poll"


def test_database_with_groups_becomes_no_mirror(store: Store, owner: Owner) -> None:
    owner.write(write(group=group_row()))

    assert store.mirror_of("a") is None
    assert store.mirrored_cluster() is None


def test_position_is_stored_with_the_write_and_replaces_the_last(store: Store, owner: Owner) -> None:
    assert store.mirror_position(SHARD) is None

    owner.write(
        write(group=group_row(), mirror_position=POSITION._replace(groups_seq=1)), write(mirror_position=POSITION)
    )

    assert store.mirror_position(SHARD) == POSITION


def test_position_of_a_lost_shard_is_not_stored(world: World, store: Store, owner: Owner) -> None:
    world.fail_over()

    owner.write(write(mirror_position=POSITION))

    assert store.mirror_position(SHARD) is None


def test_new_incarnation_leaves_the_generations_of_a_mirror(world: World, store: Store, owner: Owner) -> None:
    store.mirror_of("a")
    owner.write(write(group=group_row(generation=4), members={"m-1": member_row()}, mirror_position=POSITION))
    world.fail_over()

    renewal = store.renew(NODE, {}, "1.0", owner.epochs, TTL_MS)

    (found,) = loaded(store, [SHARD])
    assert renewal.incarnation.number == 2
    assert (found.group.generation, found.group.must_rebalance) == (4, False)
    assert store.mirror_position(SHARD) == POSITION


def test_observed_topics_raise_the_version_only_if_a_number_is_new(store: Store) -> None:
    before = store.versions().topics
    store.observe_topics({"orders": 3, "bills": 1})
    store.observe_topics({"orders": 3})
    assert store.versions().topics == before + 1

    store.observe_topics({"orders": 4, "bills": 1})

    assert store.topics() == [TopicRow("bills", 1, 0, 0), TopicRow("orders", 4, 0, before + 2)]


def test_forgotten_topics_are_deleted_with_their_log_ends(store: Store) -> None:
    store.observe_topics({"orders": 3, "bills": 1})
    store.report_log_ends([LogEndReport("orders", 0, 90, NOW_MS), LogEndReport("bills", 0, 7, NOW_MS)], 0)
    before = store.versions()

    store.forget_topics(["orders", "never-known"])

    after = store.versions()
    assert [row.topic for row in store.topics()] == ["bills"]
    assert store.log_ends(["orders", "bills"]) == {("bills", 0): LogEnd(NOW_MS, 7)}
    assert (after.topics > before.topics, after.log_end_deletions > before.log_end_deletions) == (True, True)
    store.forget_topics(["orders", "never-known"])
    assert store.versions() == after


def test_forgotten_log_ends_are_deleted_and_later_reports_count(store: Store) -> None:
    known = store.versions().log_end_deletions
    ends = [LogEndReport("orders", number, 90, NOW_MS) for number in (0, 1)]
    store.report_log_ends(ends, known)

    store.forget_log_ends([("orders", 0), ("bills", 7)])

    assert store.log_ends(["orders"]) == {("orders", 1): LogEnd(NOW_MS, 90)}
    assert not store.report_log_ends(ends, known), "a report that was gathered before restores nothing"
    store.report_log_ends([LogEndReport("orders", 0, 4, NOW_MS)], store.versions().log_end_deletions)
    assert store.log_ends(["orders"])["orders", 0] == LogEnd(NOW_MS, 4)
