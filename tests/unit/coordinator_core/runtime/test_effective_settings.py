"""What stands around groups: of settings the narrower wins, and each tells where it comes from."""

import pytest

from coordinator_core.protocol.setting_rules import SETTING_KEYS
from coordinator_core.protocol.settings import CataloguedTopic, GroupSettings
from coordinator_core.runtime.surroundings import NOTHING_READ, Surroundings
from coordinator_core.runtime.views import SettingInForce
from coordinator_core.store.rows import StoredSettings, TopicRow, Versions

VERSIONS = Versions(1, 2, 3, 4)


def surroundings(cluster: dict[str, str] | None = None, **groups: dict[str, str]) -> Surroundings:
    """Return surroundings of a node whose environment sets the largest size to 9."""
    around = Surroundings(GroupSettings(group_max_size=9), frozenset({"group_max_size"}))
    around.update(VERSIONS, StoredSettings(cluster or {}, groups), [TopicRow("orders", 12, 0, 3)])
    return around


def test_before_anything_was_read_the_node_s_own_settings_hold() -> None:
    around = Surroundings(GroupSettings(group_max_size=9), frozenset())
    assert around.versions == NOTHING_READ
    assert around.context("g").settings == GroupSettings(group_max_size=9)


def test_narrower_wins() -> None:
    around = surroundings({"group_max_size": "5", "session_timeout_ms": "7000"}, g={"group_max_size": "3"})
    assert around.context("g").settings == GroupSettings(group_max_size=3, session_timeout_ms=7_000)
    assert around.context("other").settings == GroupSettings(group_max_size=5, session_timeout_ms=7_000)


def test_every_setting_tells_where_it_comes_from() -> None:
    around = surroundings(
        {"session_timeout_ms": "7000", "rebalance_timeout_ms": "2000"}, g={"rebalance_timeout_ms": "1000"}
    )
    told = around.in_force("g")
    assert told["rebalance_timeout_ms"] == SettingInForce(1_000, "group")
    assert told["session_timeout_ms"] == SettingInForce(7_000, "cluster")
    assert told["group_max_size"] == SettingInForce(9, "environment")
    assert told["offset_metadata_max_bytes"] == SettingInForce(4_096, "default")


def test_the_cluster_s_settings_are_told_without_any_group_s() -> None:
    around = surroundings({"group_max_size": "5"}, g={"group_max_size": "3"})
    assert around.in_force(None)["group_max_size"] == SettingInForce(5, "cluster")


def test_a_group_that_nobody_set_anything_for_has_the_cluster_s() -> None:
    around = surroundings({"group_max_size": "5"})
    of_cluster = around.in_force(None)
    assert around.in_force("unheard of") == {key: of_cluster[key] for key in SETTING_KEYS}


def test_a_setting_of_the_cluster_is_shown_for_the_cluster_only() -> None:
    assert surroundings().log_end_max_age_ms() == 300_000
    assert surroundings().in_force(None)["log_end_max_age_ms"] == SettingInForce(300_000, "default")
    around = surroundings({"log_end_max_age_ms": "60000"}, g={"log_end_max_age_ms": "1"})
    assert around.log_end_max_age_ms() == 60_000
    assert around.in_force(None)["log_end_max_age_ms"] == SettingInForce(60_000, "cluster")
    assert "log_end_max_age_ms" not in around.in_force("g")


@pytest.mark.parametrize(("text", "age_ms"), [("1", 1_000), ("9" * 11, 2**31 - 1), ("5 min", 300_000)])
def test_a_stored_age_that_is_out_of_bounds_or_unreadable_does_not_harm(text: str, age_ms: int) -> None:
    assert surroundings({"log_end_max_age_ms": text}).log_end_max_age_ms() == age_ms


def test_groups_without_settings_of_their_own_share_one_context() -> None:
    around = surroundings(None, g={"group_max_size": "3"})
    assert around.context("one") is around.context("other")


def test_the_catalogue_is_the_same_for_all() -> None:
    around = surroundings(None, g={"group_max_size": "3"})
    for group_id in ("g", "other"):
        context = around.context(group_id)
        assert context.catalogue == {"orders": CataloguedTopic(12, 3)}
        assert context.topics_version == 3
        assert (context.has_partition("orders", 11), context.has_partition("orders", 12)) == (True, False)
        assert context.has_partition("sales", 99)


def test_what_was_read_again_takes_the_place_of_what_was_read_before() -> None:
    around = surroundings({"group_max_size": "5"}, g={"group_max_size": "3"})
    around.update(Versions(2, 3, 4, 5), StoredSettings({}, {}), [])
    assert around.versions == Versions(2, 3, 4, 5)
    assert around.context("g").settings == GroupSettings(group_max_size=9)
    assert around.context("g").catalogue == {}


def test_a_change_is_shown_before_it_is_made() -> None:
    around = surroundings({"group_max_size": "5", "session_timeout_ms": "7000"}, g={"group_max_size": "3"})
    assert around.would_be("g", {"group_max_size": None}).group_max_size == 5
    assert around.would_be("g", {"session_timeout_ms": "8000"}).session_timeout_ms == 8_000
    assert around.would_be(None, {"group_max_size": None}).group_max_size == 9
    assert around.would_be(None, {"group_max_size": "6"}).group_max_size == 6
    assert around.in_force("g")["group_max_size"].value == 3
