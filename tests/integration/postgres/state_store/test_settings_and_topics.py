"""Contract tests: changes of settings and topic metadata are counted, recorded, and made once."""

import pytest

from coordinator_core.queries.settings import SettingOrigin, read_setting_origins
from coordinator_core.state_store.interface import Store
from coordinator_core.state_store.rows import StoredSettings, TopicRow, Versions
from tests.support.store_rows import change_row, uuid_of
from tests.support.store_worlds import Query, World

# -- the topic metadata ----------------------------------------------------------------------------------------------


def test_a_new_topic_starts_at_zero_under_the_next_version(store: Store) -> None:
    assert store.put_topic("clicks", 3, None, change_row()) == TopicRow("clicks", 3, 0, 1)
    assert store.put_topic("views", 1, 7, change_row("second")) == TopicRow("views", 1, 7, 2)
    assert store.topics() == [TopicRow("clicks", 3, 0, 1), TopicRow("views", 1, 7, 2)]
    assert store.versions() == Versions(0, 0, 2, 0)


def test_a_raised_count_draws_a_version(store: Store) -> None:
    store.put_topic("clicks", 3, 5, change_row())
    store.put_topic("views", 3, None, change_row("second"))
    assert store.put_topic("clicks", 4, None, change_row("third")) == TopicRow("clicks", 4, 5, 3)
    assert store.versions().topics == 3


def test_the_same_count_draws_no_version(store: Store) -> None:
    store.put_topic("clicks", 3, None, change_row())
    assert store.put_topic("clicks", 3, 9, change_row("second")) == TopicRow("clicks", 3, 9, 1)
    assert store.versions().topics == 1


def test_a_lower_count_is_refused_and_changes_nothing(world: World, store: Store) -> None:
    store.put_topic("clicks", 3, None, change_row())
    with pytest.raises(ValueError, match="can only grow"):
        store.put_topic("clicks", 2, 9, change_row("second"))
    assert store.topics() == [TopicRow("clicks", 3, 0, 1)]
    assert len(world.history().changes) == 1


def test_topic_change_includes_values_before_and_after(world: World, store: Store) -> None:
    store.put_topic("clicks", 3, None, change_row())
    store.put_topic("clicks", 4, 2, change_row("second", at_ms=change_row().at_ms + 1))
    old = {"topic": "clicks", "partitions": 3, "log_start_offset": 0}
    new = {"topic": "clicks", "partitions": 4, "log_start_offset": 2}
    assert [(row.before, row.after) for row in world.history().changes] == [(None, old), (old, new)]


def test_topic_put_again_under_the_same_change_is_kept(world: World, store: Store) -> None:
    store.put_topic("clicks", 3, None, change_row())
    assert store.put_topic("clicks", 3, None, change_row()) == TopicRow("clicks", 3, 0, 1)
    assert len(world.history().changes) == 1


def test_topics_come_in_order_of_bytes(store: Store) -> None:
    for name in ("b", "B", "a"):
        store.put_topic(name, 1, None, change_row(name))
    assert [row.topic for row in store.topics()] == ["B", "a", "b"]


# -- settings -------------------------------------------------------------------------------------------------------


def test_settings_are_set_and_unset_by_name(store: Store) -> None:
    store.put_settings(None, {"group_max_size": "5", "session_timeout_ms": "9000"}, change_row())
    store.put_settings("orders", {"group_max_size": "3"}, change_row("second"))
    store.put_settings(None, {"session_timeout_ms": None, "unheard": None}, change_row("third"))
    assert store.settings() == StoredSettings({"group_max_size": "5"}, {"orders": {"group_max_size": "3"}})


def test_each_setting_has_its_last_actor_and_time(store: Store, query: Query) -> None:
    at_ms = change_row().at_ms
    values = {"session_timeout_ms": "9000", "rebalance_timeout_ms": "9000"}
    store.put_settings(None, values, change_row("first", actor="ada"))
    store.put_settings("g", {"rebalance_timeout_ms": "5000"}, change_row("second", actor="bob", at_ms=at_ms + 7))
    cluster = SettingOrigin("ada", at_ms)
    own = SettingOrigin("bob", at_ms + 7)
    assert query(read_setting_origins, "g") == {"session_timeout_ms": cluster, "rebalance_timeout_ms": own}
    assert query(read_setting_origins, "other") == dict.fromkeys(values, cluster)
    store.put_settings("g", {"rebalance_timeout_ms": None}, change_row("third"))
    assert query(read_setting_origins, "g") == dict.fromkeys(values, cluster)


def test_a_group_without_settings_is_not_named(store: Store) -> None:
    store.put_settings("orders", {"group_max_size": "3"}, change_row())
    store.put_settings("orders", {"group_max_size": None}, change_row("second"))
    assert store.settings() == StoredSettings({}, {})


def test_one_group_s_settings_are_not_another_s(store: Store) -> None:
    store.put_settings("orders", {"group_max_size": "3"}, change_row())
    store.put_settings("views", {"group_max_size": None}, change_row("second"))
    assert store.settings().groups == {"orders": {"group_max_size": "3"}}


def test_each_kind_of_setting_has_its_own_version(store: Store) -> None:
    store.put_settings(None, {"group_max_size": "5"}, change_row())
    store.put_settings("orders", {"group_max_size": "5"}, change_row("second"))
    store.put_settings("views", {"group_max_size": "5"}, change_row("third"))
    assert store.versions() == Versions(1, 2, 0, 0)


def test_settings_change_includes_values_before_and_after(world: World, store: Store) -> None:
    store.put_settings("orders", {"a": "1", "untouched": "x"}, change_row())
    store.put_settings("orders", {"a": "2", "b": "3"}, change_row("second", at_ms=change_row().at_ms + 1))
    last = world.history().changes[-1]
    assert (last.before, last.after) == ({"a": "1", "b": None}, {"a": "2", "b": "3"})
    assert (last.actor, last.reason) == ("night shift", "a drill")


def test_settings_put_again_under_the_same_change_are_kept(world: World, store: Store) -> None:
    store.put_settings(None, {"a": "1"}, change_row())
    store.put_settings(None, {"a": "2"}, change_row("second", at_ms=change_row().at_ms + 1))
    store.put_settings(None, {"a": "1"}, change_row())
    assert store.settings().cluster == {"a": "2"}
    assert store.versions().cluster_configs == 2
    assert len(world.history().changes) == 2


def test_settings_are_not_changed_after_others_that_were_not_checked(store: Store) -> None:
    seen = store.versions()
    assert store.put_settings("orders", {"a": "1"}, change_row("first", action="put_settings"), seen)
    assert not store.put_settings(None, {"a": "2"}, change_row("second"), seen)
    assert store.put_settings("views", {"a": "2"}, change_row("third"), seen)
    assert store.put_settings(None, {"a": "2"}, change_row("fourth", action="put_settings"), store.versions())
    assert not store.put_settings("orders", {"a": "3"}, change_row("fifth"), seen)
    assert store.undo_settings(uuid_of("first"), change_row("undo"), seen) is None
    assert store.settings() == StoredSettings({"a": "2"}, {"orders": {"a": "1"}, "views": {"a": "2"}})
    assert store.undo_settings(uuid_of("fourth"), change_row("undo"), store.versions()) is not None
    assert store.settings().cluster == {}


def test_settings_are_not_changed_twice_under_one_change(store: Store) -> None:
    assert store.put_settings("orders", {"a": "1"}, change_row())
    assert not store.put_settings("views", {"a": "1"}, change_row())
    assert store.settings().groups == {"orders": {"a": "1"}}
