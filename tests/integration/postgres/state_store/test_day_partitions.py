"""Contract tests: daily partitions of history are created ahead."""

from coordinator_core.state_store.interface import Store
from tests.support.store_rows import ownership_row, part_row, session_row, transition_row, write
from tests.support.store_worlds import Owner, World

DAY_MS = 86_400_000


def test_a_new_database_lacks_partitions_until_they_are_made(store: Store) -> None:
    assert store.lacks_history_partitions()
    store.create_history_partitions(days_ahead=2)
    assert not store.lacks_history_partitions()


def test_partition_of_today_only_is_reported_as_missing(store: Store) -> None:
    store.create_history_partitions(days_ahead=0)
    assert store.lacks_history_partitions()
    store.create_history_partitions(days_ahead=1)
    assert not store.lacks_history_partitions()


def test_making_partitions_again_changes_nothing(store: Store, owner: Owner, world: World) -> None:
    store.create_history_partitions(days_ahead=1)
    owner.write(write(transitions=(transition_row(at_ms=world.today_ms()),)))
    store.create_history_partitions(days_ahead=1)
    assert not store.lacks_history_partitions()
    assert len(world.history().transitions) == 1


def test_rows_of_days_with_a_partition_go_there(store: Store, owner: Owner, world: World) -> None:
    store.create_history_partitions(days_ahead=1)
    owner.write(write(transitions=(transition_row(at_ms=world.today_ms() + DAY_MS),)))
    assert not store.lacks_history_partitions()


def test_row_without_partition_is_kept_and_reported(store: Store, owner: Owner, world: World) -> None:
    store.create_history_partitions(days_ahead=1)
    owner.write(write(ownerships=(ownership_row(valid_to_ms=world.today_ms() - 9 * DAY_MS),)))
    assert store.lacks_history_partitions()
    assert len(world.history().ownerships) == 1


def test_rebalance_members_and_sessions_are_partitioned_by_end_day(store: Store, owner: Owner, world: World) -> None:
    store.create_history_partitions(days_ahead=1)
    at_ms = world.today_ms()
    owner.write(write(rebalance_members=(part_row(completed_at_ms=at_ms),), sessions=(session_row(ended_at_ms=at_ms),)))
    assert not store.lacks_history_partitions()
    owner.write(write(sessions=(session_row(ended_at_ms=at_ms - 9 * DAY_MS),)))
    assert store.lacks_history_partitions()


def test_day_in_the_default_partition_remains_there(store: Store, owner: Owner, world: World) -> None:
    owner.write(write(transitions=(transition_row(at_ms=world.today_ms()),)))
    store.create_history_partitions(days_ahead=1)
    assert store.lacks_history_partitions()
    owner.write(write(transitions=(transition_row(at_ms=world.today_ms()),)))
    assert len(world.history().transitions) == 2
