"""A cache of settings and topic metadata, with their versions.

A node keeps all of them in memory, and reads them again when a renewal finds newer versions.

Source: settings.md "Group settings" and "Of the cluster": the narrower of default, environment, cluster and group wins.
"""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

import structlog

from coordinator_core.protocol.errors import InvalidRequest
from coordinator_core.protocol.setting_rules import (
    CLUSTER_KEYS,
    SETTING_KEYS,
    apply_overrides,
    check_consistency,
    cluster_settings,
    find_conflict,
    is_parseable,
)
from coordinator_core.protocol.settings import ClusterSettings, Context, GroupSettings, TopicMetadata
from coordinator_core.runtime.views import EffectiveSetting, SettingSource
from coordinator_core.state_store.rows import StoredSettings, TopicRow, Versions

log = structlog.get_logger("muster.runtime")

NOT_LOADED = Versions(-1, -1, -1, -1)
DELETED_TOPICS_MAX: Final = 10_000
"""How many deleted topics are known, those that were deleted last."""


class MetadataCache:
    """Settings and topic metadata; `context` returns those of one group."""

    def __init__(self, defaults: GroupSettings, environment_keys: frozenset[str]) -> None:
        self.versions = NOT_LOADED
        self.changing = asyncio.Lock()
        """One change of settings at a time: each is checked against the others."""
        self._cluster_settings = ClusterSettings()
        self._defaults = defaults
        self._environment_keys = environment_keys
        self._cluster: Mapping[str, str] = {}
        self._groups: Mapping[str, Mapping[str, str]] = {}
        self._common = Context(defaults)
        self._own: dict[str, Context] = {}

    @property
    def topic_metadata(self) -> Mapping[str, TopicMetadata]:
        """The topics with metadata, by name."""
        return self._common.topic_metadata

    def context(self, group_id: str) -> Context:
        """Return the context of decisions about a group; groups without settings of their own share one."""
        return self._own.get(group_id, self._common)

    def log_end_max_age_ms(self) -> int:
        """Return the age after which a reported log end offset is stale."""
        return self._cluster_settings.log_end_max_age_ms

    def update(self, versions: Versions, settings: StoredSettings, topics: Iterable[TopicRow]) -> None:
        """Replace the cache by what the store has."""
        before = self._common
        self.versions = versions
        self._cluster = _readable(None, settings.cluster)
        self._cluster_settings = cluster_settings(self._cluster)
        self._groups = {group_id: _readable(group_id, stored) for group_id, stored in settings.groups.items()}
        topic_metadata = {row.topic: TopicMetadata(row.partitions, row.version) for row in topics}
        common = apply_overrides(self._defaults, self._cluster)
        # Topics may have changed after the versions were read.
        topics_version = max([versions.topics, *(topic.version for topic in topic_metadata.values())])
        deleted = {topic: at for topic, at in before.deleted_topics.items() if topic not in topic_metadata}
        if newly_deleted := sorted(before.topic_metadata.keys() - topic_metadata.keys()):
            topics_version = max(topics_version, before.topics_version + 1)
            deleted |= dict.fromkeys(newly_deleted, topics_version)
        deleted = dict(list(deleted.items())[-DELETED_TOPICS_MAX:])
        self._common = Context(common, topic_metadata, topics_version, deleted)
        self._own = {
            group_id: replace(self._common, settings=apply_overrides(common, stored))
            for group_id, stored in self._groups.items()
        }

    def effective_settings(self, group_id: str | None) -> dict[str, EffectiveSetting]:
        """Return every setting of a group with its source; None: of the cluster, with the cluster's own settings."""
        own = {} if group_id is None else self._groups.get(group_id, {})
        settings = self._common.settings if group_id is None else self.context(group_id).settings
        values = {key: getattr(settings, key) for key in SETTING_KEYS}
        if group_id is None:
            values |= {key: getattr(self._cluster_settings, key) for key in CLUSTER_KEYS}
        return {key: EffectiveSetting(value, self._source(key, own)) for key, value in values.items()}

    def _source(self, key: str, own: Mapping[str, str]) -> SettingSource:
        if key in own:
            return "group"
        if key in self._cluster:
            return "cluster"
        return "environment" if key in self._environment_keys else "default"

    def preview(self, group_id: str | None, values: Mapping[str, str | None]) -> GroupSettings:
        """Return the settings that would be effective after a change."""
        cluster = dict(self._cluster)
        own = {} if group_id is None else dict(self._groups.get(group_id, {}))
        level = cluster if group_id is None else own
        for key, text in values.items():
            if text is None:
                level.pop(key, None)
            else:
                level[key] = text
        return apply_overrides(apply_overrides(self._defaults, cluster), own)

    def check_change(self, group_id: str | None, values: Mapping[str, str | None]) -> None:
        """Check that settings will be consistent after a change.

        A change of the cluster's settings is checked for every group with settings of its own, except groups whose
        settings conflict already.

        Raises:
            InvalidRequest: two settings conflict; the text names them, and the group.
        """
        settings = self.preview(group_id, values)
        check_consistency(settings)
        for other, own in self._groups.items() if group_id is None else ():
            conflict = find_conflict(apply_overrides(settings, own))
            if conflict is not None and find_conflict(self.context(other).settings) is None:
                raise InvalidRequest(f"group {other}: {conflict}")


def _readable(group_id: str | None, stored: Mapping[str, str]) -> Mapping[str, str]:
    """Return the settings that can be parsed; for others the value of the wider level is effective."""
    unreadable = [key for key, text in stored.items() if not is_parseable(key, text)]
    for key in unreadable:
        log.warning("invalid_setting_ignored", group=group_id, key=key)
    return {key: text for key, text in stored.items() if key not in unreadable} if unreadable else stored
