"""The narrower level of a setting wins, and every setting has its source."""

import pytest

from coordinator_core.protocol.setting_rules import SETTING_KEYS
from coordinator_core.protocol.settings import GroupSettings, TopicMetadata
from coordinator_core.runtime.metadata_cache import NOT_LOADED, MetadataCache
from coordinator_core.runtime.views import EffectiveSetting
from coordinator_core.state_store.rows import StoredSettings, TopicRow, Versions

VERSIONS = Versions(1, 2, 3, 4)


def metadata_cache(cluster: dict[str, str] | None = None, **groups: dict[str, str]) -> MetadataCache:
    """Return surroundings of a node whose environment sets the largest size to 9."""
    around = MetadataCache(GroupSettings(group_max_size=9), frozenset({"group_max_size"}))
    around.update(VERSIONS, StoredSettings(cluster or {}, groups), [TopicRow("orders", 12, 0, 3)])
    return around


def test_before_anything_was_read_the_node_s_own_settings_hold() -> None:
    around = MetadataCache(GroupSettings(group_max_size=9), frozenset())
    assert around.versions == NOT_LOADED
    assert around.context("g").settings == GroupSettings(group_max_size=9)


def test_narrower_wins() -> None:
    around = metadata_cache({"group_max_size": "5", "session_timeout_ms": "7000"}, g={"group_max_size": "3"})
    assert around.context("g").settings == GroupSettings(group_max_size=3, session_timeout_ms=7_000)
    assert around.context("other").settings == GroupSettings(group_max_size=5, session_timeout_ms=7_000)


def test_every_setting_shows_its_source() -> None:
    around = metadata_cache(
        {"session_timeout_ms": "7000", "rebalance_timeout_ms": "2000"}, g={"rebalance_timeout_ms": "1000"}
    )
    effective = around.effective_settings("g")
    assert effective["rebalance_timeout_ms"] == EffectiveSetting(1_000, "group")
    assert effective["session_timeout_ms"] == EffectiveSetting(7_000, "cluster")
    assert effective["group_max_size"] == EffectiveSetting(9, "environment")
    assert effective["offset_metadata_max_bytes"] == EffectiveSetting(4_096, "default")


def test_topics_that_changed_after_the_versions_were_read_are_known_to_new_generations() -> None:
    around = MetadataCache(GroupSettings(), frozenset())
    changed = TopicRow("orders", 24, 0, VERSIONS.topics + 1)
    around.update(VERSIONS, StoredSettings({}, {}), [changed])
    assert around.versions == VERSIONS, "the next refresh reads what else has changed"
    assert around.context("g").topics_version == changed.version


def test_deleted_topics_are_known_until_they_are_there_again() -> None:
    around = metadata_cache()
    around.update(Versions(1, 2, 4, 4), StoredSettings({}, {}), [])
    assert around.context("g").deleted_topics == {"orders": 4}
    around.update(Versions(1, 2, 5, 4), StoredSettings({}, {}), [TopicRow("views", 1, 0, 5)])
    assert around.context("g").deleted_topics == {"orders": 4}
    around.update(Versions(1, 2, 6, 4), StoredSettings({}, {}), [TopicRow("orders", 1, 0, 6)])
    assert around.context("g").deleted_topics == {"views": 6}


def test_topic_that_was_deleted_after_the_versions_were_read_has_a_version_of_its_own() -> None:
    """Groups whose leaders have assigned it are at the version before."""
    around = metadata_cache()
    around.update(VERSIONS, StoredSettings({}, {}), [])
    context = around.context("g")
    assert context.deleted_topics == {"orders": VERSIONS.topics + 1}
    assert context.topics_version == VERSIONS.topics + 1


def test_cluster_settings_exclude_group_settings() -> None:
    around = metadata_cache({"group_max_size": "5"}, g={"group_max_size": "3"})
    assert around.effective_settings(None)["group_max_size"] == EffectiveSetting(5, "cluster")


def test_group_without_settings_uses_the_clusters() -> None:
    around = metadata_cache({"group_max_size": "5"})
    of_cluster = around.effective_settings(None)
    assert around.effective_settings("unheard of") == {key: of_cluster[key] for key in SETTING_KEYS}


def test_a_setting_of_the_cluster_is_shown_for_the_cluster_only() -> None:
    assert metadata_cache().log_end_max_age_ms() == 300_000
    assert metadata_cache().effective_settings(None)["log_end_max_age_ms"] == EffectiveSetting(300_000, "default")
    around = metadata_cache({"log_end_max_age_ms": "60000"}, g={"log_end_max_age_ms": "1"})
    assert around.log_end_max_age_ms() == 60_000
    assert around.effective_settings(None)["log_end_max_age_ms"] == EffectiveSetting(60_000, "cluster")
    assert "log_end_max_age_ms" not in around.effective_settings("g")


@pytest.mark.parametrize(("text", "age_ms"), [("1", 1_000), ("9" * 11, 2**31 - 1), ("5 min", 300_000)])
def test_invalid_stored_age_limit_is_ignored(text: str, age_ms: int) -> None:
    assert metadata_cache({"log_end_max_age_ms": text}).log_end_max_age_ms() == age_ms


def test_groups_without_settings_of_their_own_share_one_context() -> None:
    around = metadata_cache(None, g={"group_max_size": "3"})
    assert around.context("one") is around.context("other")


def test_the_topic_metadata_is_the_same_for_all() -> None:
    around = metadata_cache(None, g={"group_max_size": "3"})
    for group_id in ("g", "other"):
        context = around.context(group_id)
        assert context.topic_metadata == {"orders": TopicMetadata(12, 3)}
        assert context.topics_version == 3
        assert (context.has_partition("orders", 11), context.has_partition("orders", 12)) == (True, False)
        assert context.has_partition("sales", 99)


def test_refresh_replaces_settings_and_topics() -> None:
    around = metadata_cache({"group_max_size": "5"}, g={"group_max_size": "3"})
    around.update(Versions(2, 3, 4, 5), StoredSettings({}, {}), [])
    assert around.versions == Versions(2, 3, 4, 5)
    assert around.context("g").settings == GroupSettings(group_max_size=9)
    assert around.context("g").topic_metadata == {}


def test_preview_applies_a_change() -> None:
    around = metadata_cache({"group_max_size": "5", "session_timeout_ms": "7000"}, g={"group_max_size": "3"})
    assert around.preview("g", {"group_max_size": None}).group_max_size == 5
    assert around.preview("g", {"session_timeout_ms": "8000"}).session_timeout_ms == 8_000
    assert around.preview(None, {"group_max_size": None}).group_max_size == 9
    assert around.preview(None, {"group_max_size": "6"}).group_max_size == 6
    assert around.effective_settings("g")["group_max_size"].value == 3
