"""What stands around groups: the settings in force at each level, and the topic catalogue, as of some version.

A node keeps all of it in memory and reads it again when a renewal shows that it is behind.

Source: settings.md "Of groups": narrower wins: default, environment, cluster, group; "Of the cluster".
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

import structlog

from coordinator_core.protocol.errors import InvalidRequest
from coordinator_core.protocol.setting_rules import (
    CLUSTER_KEYS,
    SETTING_KEYS,
    check_together,
    clash,
    cluster_settings,
    is_readable,
    narrowed,
)
from coordinator_core.protocol.settings import CataloguedTopic, ClusterSettings, Context, GroupSettings
from coordinator_core.runtime.views import SettingInForce, SettingSource
from coordinator_core.store.rows import StoredSettings, TopicRow, Versions

log = structlog.get_logger("muster.runtime")

NOTHING_READ = Versions(-1, -1, -1, -1)


class Surroundings:
    """Settings and catalogue; `context` hands a group what holds for it."""

    def __init__(self, defaults: GroupSettings, environment_keys: frozenset[str]) -> None:
        self.versions = NOTHING_READ
        self._cluster_settings = ClusterSettings()
        self._defaults = defaults
        self._environment_keys = environment_keys
        self._cluster: Mapping[str, str] = {}
        self._groups: Mapping[str, Mapping[str, str]] = {}
        self._common = Context(defaults)
        self._own: dict[str, Context] = {}

    def context(self, group_id: str) -> Context:
        """Return what a decision about this group may look at; shared by all groups without settings of their own."""
        return self._own.get(group_id, self._common)

    def log_end_max_age_ms(self) -> int:
        """Return how long ago the end of a log may have been reported, before it is stale."""
        return self._cluster_settings.log_end_max_age_ms

    def update(self, versions: Versions, settings: StoredSettings, topics: Iterable[TopicRow]) -> frozenset[str]:
        """Take up what the store has now; return the topics that are in the catalogue no more."""
        known_before = self._common.catalogue.keys()
        self.versions = versions
        self._cluster = _readable(None, settings.cluster)
        self._cluster_settings = cluster_settings(self._cluster)
        self._groups = {group_id: _readable(group_id, stored) for group_id, stored in settings.groups.items()}
        catalogue = {row.topic: CataloguedTopic(row.partitions, row.version) for row in topics}
        common = narrowed(self._defaults, self._cluster)
        self._common = Context(common, catalogue, versions.topics)
        self._own = {
            group_id: replace(self._common, settings=narrowed(common, stored))
            for group_id, stored in self._groups.items()
        }
        return frozenset(known_before - catalogue.keys())

    def in_force(self, group_id: str | None) -> dict[str, SettingInForce]:
        """Return every setting with where it comes from, for a group or (None) for the cluster with its own."""
        own = {} if group_id is None else self._groups.get(group_id, {})
        settings = self._common.settings if group_id is None else self.context(group_id).settings
        values = {key: getattr(settings, key) for key in SETTING_KEYS}
        if group_id is None:
            values |= {key: getattr(self._cluster_settings, key) for key in CLUSTER_KEYS}
        return {key: SettingInForce(value, self._source(key, own)) for key, value in values.items()}

    def _source(self, key: str, own: Mapping[str, str]) -> SettingSource:
        if key in own:
            return "group"
        if key in self._cluster:
            return "cluster"
        return "environment" if key in self._environment_keys else "default"

    def would_be(self, group_id: str | None, values: Mapping[str, str | None]) -> GroupSettings:
        """Return the settings that would be in force after a change of some."""
        cluster = dict(self._cluster)
        own = {} if group_id is None else dict(self._groups.get(group_id, {}))
        level = cluster if group_id is None else own
        for key, text in values.items():
            if text is None:
                level.pop(key, None)
            else:
                level[key] = text
        return narrowed(narrowed(self._defaults, cluster), own)

    def check_change(self, group_id: str | None, values: Mapping[str, str | None]) -> None:
        """Check that settings will make sense beside each other after a change of some.

        A change of the cluster's is checked for every group that has settings of its own; one whose settings clash
        already is in nobody's way.

        Raises:
            InvalidRequest: says which two do not, and, of a change of the cluster's, for which group.
        """
        settings = self.would_be(group_id, values)
        check_together(settings)
        for other, own in self._groups.items() if group_id is None else ():
            said = clash(narrowed(settings, own))
            if said is not None and clash(self.context(other).settings) is None:
                raise InvalidRequest(f"group {other}: {said}")


def _readable(group_id: str | None, stored: Mapping[str, str]) -> Mapping[str, str]:
    """Return the settings that can be read; in place of any other the wider level's value is in force."""
    unreadable = [key for key, text in stored.items() if not is_readable(key, text)]
    for key in unreadable:
        log.warning("setting_not_read", group=group_id, key=key)
    return {key: text for key, text in stored.items() if key not in unreadable} if unreadable else stored
