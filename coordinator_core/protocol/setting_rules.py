"""Rules of the settings that can be changed at run time: valid values, and how a stored text is parsed.

Source: settings.md "Group settings", "Of the cluster".
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from coordinator_core.protocol.errors import InvalidRequest
from coordinator_core.protocol.settings import ClusterSettings, GroupSettings

INT32_MAX = 2_147_483_647
REBALANCE_TIMEOUT_MIN_MS = 1_000
"""The lowest value of the setting: with much less, members are evicted before they can sync."""

LOG_END_MAX_AGE_MIN_MS = 1_000
"""Log end offsets are stored about once a second, so a lower limit would make every one stale."""

SettingValue = int | str | None


@dataclass(frozen=True, slots=True)
class IntegerRule:
    """An integer within bounds, both inclusive."""

    low: int
    high: int = INT32_MAX

    def check(self, value: SettingValue) -> str | None:
        """Return what is wrong with the value, or None."""
        if isinstance(value, bool) or not isinstance(value, int):
            return "must be a whole number"
        return None if self.low <= value <= self.high else f"must be from {self.low} to {self.high}"

    def parse(self, text: str) -> int:
        """Return the value of a stored text, clamped: the bounds may have been others when it was stored."""
        return min(max(int(text), self.low), self.high)


@dataclass(frozen=True, slots=True)
class ChoiceRule:
    """One of a few words."""

    choices: tuple[str, ...]

    def check(self, value: SettingValue) -> str | None:
        """Return what is wrong with the value, or None."""
        return None if value in self.choices else f"must be one of {', '.join(self.choices)}"

    def parse(self, text: str) -> str:
        """Return the value of a stored text."""
        return text


RULES: Mapping[str, IntegerRule | ChoiceRule] = {
    "session_timeout_ms": IntegerRule(1),
    "heartbeat_interval_ms": IntegerRule(1),
    "rebalance_timeout_ms": IntegerRule(REBALANCE_TIMEOUT_MIN_MS),
    "group_min_session_timeout_ms": IntegerRule(1),
    "group_max_session_timeout_ms": IntegerRule(1),
    "group_initial_rebalance_delay_ms": IntegerRule(0),
    "group_max_size": IntegerRule(1),
    "group_max_pending_members": IntegerRule(1),
    "group_max_offsets": IntegerRule(1),
    "group_metadata_max_bytes": IntegerRule(1),
    "member_metadata_max_bytes": IntegerRule(1),
    "member_assignment_max_bytes": IntegerRule(1),
    "group_new_member_join_timeout_ms": IntegerRule(1),
    "group_sync_timeout_scope": ChoiceRule(("all", "dynamic")),
    "offsets_retention_minutes": IntegerRule(-1),
    "offset_metadata_max_bytes": IntegerRule(0),
}
"""Setting → its rule; the keys are the fields of `GroupSettings`, which a test checks."""

CLUSTER_RULES: Mapping[str, IntegerRule | ChoiceRule] = {
    "log_end_max_age_ms": IntegerRule(LOG_END_MAX_AGE_MIN_MS),
}
"""The rules of settings that no group can override; the keys are the fields of `ClusterSettings`."""

ALL_RULES: Mapping[str, IntegerRule | ChoiceRule] = {**RULES, **CLUSTER_RULES}

SETTING_KEYS = tuple(field.name for field in fields(GroupSettings))
CLUSTER_KEYS = tuple(field.name for field in fields(ClusterSettings))


def is_parseable(key: str, text: str) -> bool:
    """Return whether a stored text is a valid value of its setting; unknown keys are never read, so they pass."""
    rule = ALL_RULES.get(key)
    if rule is None:
        return True
    try:
        return rule.check(rule.parse(text)) is None
    except ValueError:
        return False


def check_settings(values: Mapping[str, SettingValue], *, is_cluster: bool = False) -> None:
    """Check values to be set for a group or for the cluster; None resets a setting, and is always valid.

    Raises:
        InvalidRequest: names the first key that is unknown or has an invalid value, and why.
    """
    rules = ALL_RULES if is_cluster else RULES
    for key, value in values.items():
        rule = rules.get(key)
        if rule is None:
            if key in CLUSTER_RULES:
                raise InvalidRequest(f"{key} is a setting of the cluster, and no group can override it")
            raise InvalidRequest(f"{key} is no setting; there are {', '.join(rules)}")
        problem = None if value is None else rule.check(value)
        if problem is not None:
            raise InvalidRequest(f"{key} {problem}")


def check_consistency(settings: GroupSettings) -> None:
    """Check that effective settings do not contradict each other.

    Raises:
        InvalidRequest: names the two that do.
    """
    conflict = find_conflict(settings)
    if conflict is not None:
        raise InvalidRequest(conflict)


def find_conflict(settings: GroupSettings) -> str | None:
    """Return a sentence about the first two settings that contradict each other, or None."""
    low, high = settings.group_min_session_timeout_ms, settings.group_max_session_timeout_ms
    if low > high:
        return f"group_min_session_timeout_ms ({low}) is above group_max_session_timeout_ms ({high})"
    session_ms, heartbeat_ms = settings.session_timeout_ms, settings.heartbeat_interval_ms
    if session_ms is not None and not low <= session_ms <= high:
        return f"session_timeout_ms ({session_ms}) must be from {low} to {high}"
    if heartbeat_ms is not None and heartbeat_ms >= (session_ms or high):
        return f"heartbeat_interval_ms ({heartbeat_ms}) must be below the session timeout ({session_ms or high})"
    return None


def apply_overrides(settings: GroupSettings, stored: Mapping[str, str]) -> GroupSettings:
    """Return the settings with the stored values of a narrower level applied; unknown keys are ignored."""
    known = _known(RULES, stored)
    return replace(settings, **known) if known else settings


def cluster_settings(stored: Mapping[str, str]) -> ClusterSettings:
    """Return the cluster settings from their stored texts; unknown keys are ignored."""
    return ClusterSettings(**_known(CLUSTER_RULES, stored))


def _known(rules: Mapping[str, IntegerRule | ChoiceRule], stored: Mapping[str, str]) -> dict[str, Any]:
    return {key: rules[key].parse(text) for key, text in stored.items() if key in rules}
