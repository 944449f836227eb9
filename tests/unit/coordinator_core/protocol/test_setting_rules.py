"""Every overridable setting has a rule, and an invalid value is refused with the setting's name.

Source: settings.md "Group settings"; protocol.md section 16.
"""

from collections.abc import Mapping
from dataclasses import fields

import pytest

from coordinator_core.protocol.errors import InvalidRequest
from coordinator_core.protocol.setting_rules import (
    ALL_RULES,
    CLUSTER_KEYS,
    CLUSTER_RULES,
    INT32_MAX,
    RULES,
    SETTING_KEYS,
    SettingValue,
    apply_overrides,
    check_consistency,
    check_settings,
)
from coordinator_core.protocol.settings import ClusterSettings, GroupSettings


def refusal(values: Mapping[str, SettingValue]) -> str:
    """Return the error sentence for invalid values."""
    with pytest.raises(InvalidRequest) as refused:
        check_settings(values)
    return refused.value.detail


def test_every_setting_has_a_rule_and_every_rule_a_setting() -> None:
    assert tuple(RULES) == tuple(field.name for field in fields(GroupSettings)) == SETTING_KEYS
    assert tuple(CLUSTER_RULES) == tuple(field.name for field in fields(ClusterSettings)) == CLUSTER_KEYS


def test_every_default_is_valid() -> None:
    defaults = {key: getattr(GroupSettings(), key) for key in SETTING_KEYS}
    check_settings(defaults)
    check_consistency(GroupSettings())


@pytest.mark.parametrize(
    ("key", "low"),
    [
        ("session_timeout_ms", 1),
        ("heartbeat_interval_ms", 1),
        ("rebalance_timeout_ms", 1_000),
        ("group_min_session_timeout_ms", 1),
        ("group_max_session_timeout_ms", 1),
        ("group_initial_rebalance_delay_ms", 0),
        ("group_max_size", 1),
        ("group_max_pending_members", 1),
        ("group_max_offsets", 1),
        ("group_metadata_max_bytes", 1),
        ("member_metadata_max_bytes", 1),
        ("member_assignment_max_bytes", 1),
        ("group_new_member_join_timeout_ms", 1),
        ("offsets_retention_minutes", -1),
        ("offset_metadata_max_bytes", 0),
    ],
)
def test_bounds_of_numbers_are_included(key: str, low: int) -> None:
    check_settings({key: low})
    check_settings({key: INT32_MAX})
    assert refusal({key: low - 1}) == f"{key} must be from {low} to {INT32_MAX}"
    assert refusal({key: INT32_MAX + 1}) == f"{key} must be from {low} to {INT32_MAX}"


def test_a_setting_of_the_cluster_has_bounds_and_no_group_can_override_it() -> None:
    for value in (1_000, INT32_MAX, None):
        check_settings({"log_end_max_age_ms": value}, is_cluster=True)
    with pytest.raises(InvalidRequest, match="log_end_max_age_ms must be from 1000 to 2147483647"):
        check_settings({"log_end_max_age_ms": 999}, is_cluster=True)
    said = "log_end_max_age_ms is a setting of the cluster, and no group can override it"
    assert refusal({"log_end_max_age_ms": 60_000}) == said


@pytest.mark.parametrize("value", ["5", True, 1.5, [1], {}])
def test_number_must_be_an_integer(value: SettingValue) -> None:
    assert refusal({"group_max_size": value}) == "group_max_size must be a whole number"


@pytest.mark.parametrize("value", ["static", "", 1, True])
def test_choice_must_be_one_of_its_values(value: SettingValue) -> None:
    check_settings({"group_sync_timeout_scope": "dynamic"})
    assert refusal({"group_sync_timeout_scope": value}) == "group_sync_timeout_scope must be one of all, dynamic"


def test_any_setting_can_be_reset() -> None:
    check_settings(dict.fromkeys(SETTING_KEYS))


def test_unknown_key_is_rejected_with_the_list_of_keys() -> None:
    assert refusal({"group_max_siez": 3}).startswith("group_max_siez is no setting; there are session_timeout_ms,")


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        (
            GroupSettings(group_min_session_timeout_ms=10, group_max_session_timeout_ms=9),
            "group_min_session_timeout_ms (10) is above group_max_session_timeout_ms (9)",
        ),
        (GroupSettings(session_timeout_ms=5_999), "session_timeout_ms (5999) must be from 6000 to 1800000"),
        (GroupSettings(session_timeout_ms=1_800_001), "session_timeout_ms (1800001) must be from 6000 to 1800000"),
        (
            GroupSettings(session_timeout_ms=6_000, heartbeat_interval_ms=6_000),
            "heartbeat_interval_ms (6000) must be below the session timeout (6000)",
        ),
        (
            GroupSettings(heartbeat_interval_ms=1_800_000),
            "heartbeat_interval_ms (1800000) must be below the session timeout (1800000)",
        ),
    ],
)
def test_contradictory_settings_are_rejected(settings: GroupSettings, problem: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        check_consistency(settings)
    assert refused.value.detail == problem


def test_settings_equal_to_each_other_s_bounds_are_accepted() -> None:
    check_consistency(GroupSettings(session_timeout_ms=6_000, heartbeat_interval_ms=5_999))
    check_consistency(GroupSettings(group_min_session_timeout_ms=9, group_max_session_timeout_ms=9))


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [("group_max_size", "3", 3), ("offsets_retention_minutes", "-1", -1), ("group_sync_timeout_scope", "all", "all")],
)
def test_stored_text_is_parsed_by_its_rule(key: str, text: str, value: SettingValue) -> None:
    assert ALL_RULES[key].parse(text) == value


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("rebalance_timeout_ms", "0", 1_000),
        ("rebalance_timeout_ms", "999", 1_000),
        ("group_max_size", str(INT32_MAX + 1), INT32_MAX),
        ("offsets_retention_minutes", "-2", -1),
    ],
)
def test_stored_number_outside_of_its_bounds_is_clamped(key: str, text: str, value: SettingValue) -> None:
    assert ALL_RULES[key].parse(text) == value


def test_narrower_level_overrides_and_unknown_keys_are_ignored() -> None:
    settings = apply_overrides(
        GroupSettings(group_max_size=9), {"session_timeout_ms": "7000", "of_a_later_release": "?"}
    )
    assert settings == GroupSettings(group_max_size=9, session_timeout_ms=7_000)
    assert apply_overrides(settings, {}) is settings


# -- effective ----------------------------------------------------------------------------------------------


def test_timeout_of_a_member_is_effective_unless_one_is_configured() -> None:
    assert GroupSettings().effective_session_timeout_ms(10_000) == 10_000
    assert GroupSettings(session_timeout_ms=7_000).effective_session_timeout_ms(10_000) == 7_000


@pytest.mark.parametrize(("session_ms", "heartbeat_ms"), [(45_000, 3_000), (6_000, 2_000), (2, 1)])
def test_default_heartbeat_interval_is_a_third_of_the_session_but_at_most_three_seconds(
    session_ms: int, heartbeat_ms: int
) -> None:
    assert GroupSettings().effective_heartbeat_interval_ms(session_ms) == heartbeat_ms


def test_configured_heartbeat_interval_is_effective() -> None:
    assert GroupSettings(heartbeat_interval_ms=500).effective_heartbeat_interval_ms(45_000) == 500


def test_retention_is_given_in_milliseconds_and_negative_is_unlimited() -> None:
    assert GroupSettings(offsets_retention_minutes=INT32_MAX).retention_ms == INT32_MAX * 60_000
    assert GroupSettings(offsets_retention_minutes=-1).retention_ms < 0
