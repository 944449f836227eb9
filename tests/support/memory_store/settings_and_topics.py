"""Settings and topic metadata in memory: every change raises a version, is recorded once, and can be undone."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from coordinator_core.protocol.restore import KEPT_NEWER, RESTORED
from coordinator_core.state_store.change_actions import ChangeAction
from coordinator_core.state_store.dirty_offsets import logged_of_topic
from coordinator_core.state_store.interface import NotUndoable
from coordinator_core.state_store.log_ends import deleted_json
from coordinator_core.state_store.rows import ChangeRow, Json, StoredSettings, TopicRow, UndoneChange, Versions
from coordinator_core.state_store.runs import TOPIC_DELETION, UNDO, CandidateRow
from coordinator_core.state_store.undo import NOTHING_TO_RESTORE, settings_to_restore, topic_json, undo_of_settings
from tests.support.memory_store.groups import Groups
from tests.support.memory_store.log_ends import LogEnds
from tests.support.memory_store.maintenance import Maintenance
from tests.support.memory_store.offset_log import OffsetLog


class SettingsAndTopics:
    """Topics and settings, and the runs that their changes start."""

    def __init__(self, groups: Groups, maintenance: Maintenance, log_ends: LogEnds, offset_log: OffsetLog) -> None:
        """Start empty.

        Args:
            groups: stores changes and offsets.
            maintenance: stores runs.
            log_ends: the log ends, which are deleted with their topic.
            offset_log: the commits that are not in the table yet.
        """
        self.versions = Versions(0, 0, 0, 0)
        self._groups = groups
        self._maintenance = maintenance
        self._log_ends = log_ends
        self._offset_log = offset_log
        self._topics: dict[str, TopicRow] = {}
        self._cluster_settings: dict[str, str] = {}
        self._group_settings: dict[str, dict[str, str]] = {}

    def jump(self, by: int) -> None:
        """Raise all versions, so that every node reads all tables again."""
        self.versions = Versions(*(version + by for version in self.versions))

    # -- the topic metadata --------------------------------------------------------------------------------------

    def topics(self) -> list[TopicRow]:
        """Return the topic metadata, by topic."""
        return [row for _, row in sorted(self._topics.items())]

    def put_topic(self, topic: str, partitions: int, log_start_offset: int | None, change: ChangeRow) -> TopicRow:
        """Add a topic, or raise its number of partitions.

        Raises:
            ValueError: the count would fall.
        """
        before = self._topics.get(topic)
        if before is not None and self._groups.change_exists(change.change_id):
            return before
        after = self._raised(before, topic, partitions, log_start_offset)
        self.versions = self.versions._replace(topics=max(self.versions.topics, after.version))
        self._topics[topic] = after
        self._record_change(change, None if before is None else topic_json(before), topic_json(after))
        return after

    def observe_topics(self, partitions: Mapping[str, int]) -> None:
        """Take the numbers of partitions of a mirrored cluster."""
        known = {topic: row.partitions for topic, row in self._topics.items()}
        new = {topic: count for topic, count in partitions.items() if known.get(topic) != count}
        if new:
            self.versions = self.versions._replace(topics=self.versions.topics + 1)
        for topic, count in new.items():
            before = self._topics.get(topic)
            start, version = (0, 0) if before is None else (before.log_start_offset, self.versions.topics)
            self._topics[topic] = TopicRow(topic, count, start, version)

    def _raised(self, before: TopicRow | None, topic: str, partitions: int, log_start_offset: int | None) -> TopicRow:
        if before is None:
            return TopicRow(topic, partitions, log_start_offset or 0, self.versions.topics + 1)
        if partitions < before.partitions:
            raise ValueError(f"topic {topic} has {before.partitions} partitions; their number can only grow")
        version = before.version if partitions == before.partitions else self.versions.topics + 1
        start = before.log_start_offset if log_start_offset is None else log_start_offset
        return TopicRow(topic, partitions, start, version)

    def delete_topic(self, topic: str, change: ChangeRow) -> ChangeRow | None:
        """Delete a topic, and start the run that archives its offsets."""
        recorded = self._groups.change(change.change_id)
        if recorded is not None:
            return recorded.change
        row = self._topics.pop(topic, None)
        if row is None:
            return None
        self._log_ends.delete(topic)
        self.versions = self.versions._replace(
            topics=self.versions.topics + 1, log_end_deletions=self.versions.log_end_deletions + 1
        )
        stored = {
            (group_id, one.partition): (shard, one.commit_version)
            for group_id, shard, one in self._groups.all_stored()
            if one.topic == topic
        }
        candidates = [
            CandidateRow(change.change_id, "", shard, group_id, topic, partition, commit_version)
            for (group_id, partition), (shard, commit_version) in sorted(
                {**stored, **logged_of_topic(self._offset_log.pending(), topic)}.items()
            )
        ]
        count = self._maintenance.begin(TOPIC_DELETION, change, candidates, None)
        return self._record_change(
            change, topic_json(row), {"topic": topic, "run_id": change.change_id, "candidates": count}
        )

    def forget_topics(self, deleted: Iterable[str]) -> None:
        """Delete topics and their log ends without a change."""
        for topic in self._topics.keys() & set(deleted):
            del self._topics[topic]
            self._log_ends.delete(topic)
            self.versions = self.versions._replace(
                topics=self.versions.topics + 1, log_end_deletions=self.versions.log_end_deletions + 1
            )

    def forget_log_ends(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Delete log ends without a change."""
        for topic, partition in partitions:
            self._log_ends.delete(topic, partition)
        self.versions = self.versions._replace(log_end_deletions=self.versions.log_end_deletions + 1)

    def delete_log_ends(self, topic: str, partition: int | None, change: ChangeRow) -> ChangeRow:
        """Delete the log ends of a topic, or of one partition, and record the change with their values."""
        recorded = self._groups.change(change.change_id)
        if recorded is not None:
            return recorded.change
        ends = self._log_ends.delete(topic, partition)
        self.versions = self.versions._replace(log_end_deletions=self.versions.log_end_deletions + 1)
        return self._record_change(change, deleted_json(topic, ends), {"topic": topic, "partition": partition})

    # -- settings -------------------------------------------------------------------------------------------

    def settings(self) -> StoredSettings:
        """Return every stored setting."""
        groups = {group_id: dict(values) for group_id, values in self._group_settings.items() if values}
        return StoredSettings(dict(self._cluster_settings), groups)

    def put_settings(
        self, group_id: str | None, values: Mapping[str, str | None], change: ChangeRow, checked: Versions | None
    ) -> bool:
        """Set or (None) unset settings of a group, or of the cluster (None); return whether they are stored."""
        if self._have_changed(group_id, checked) or self._groups.change_exists(change.change_id):
            return False
        stored = self._stored(group_id)
        before = {key: stored.get(key) for key in values}
        change = replace(change, at_ms=max(change.at_ms, self._groups.newest_settings_ms(group_id) + 1))
        self._set(group_id, values, change)
        self._record_change(change, before, dict(values))
        return True

    def _have_changed(self, group_id: str | None, checked: Versions | None) -> bool:
        kinds = 2 if group_id is None else 1
        return checked is not None and self.versions[:kinds] != checked[:kinds]

    def _stored(self, group_id: str | None) -> dict[str, str]:
        return self._cluster_settings if group_id is None else self._group_settings.setdefault(group_id, {})

    def _set(self, group_id: str | None, values: Mapping[str, str | None], change: ChangeRow) -> None:
        stored = self._stored(group_id)
        for key, value in values.items():
            stored.pop(key, None)
            if value is not None:
                stored[key] = value
        is_cluster = group_id is None
        self.versions = self.versions._replace(
            cluster_configs=self.versions.cluster_configs + is_cluster,
            group_configs=self.versions.group_configs + (not is_cluster),
        )

    def _record_change(self, change: ChangeRow, before: Json, after: Json) -> ChangeRow:
        recorded = replace(change, before=before, after=after)
        self._groups.record_change(recorded)
        return recorded

    # -- undo -----------------------------------------------------------------------------------------------

    def restorable_settings(self, undone: ChangeRow) -> dict[str, str | None]:
        """Return the values that an undo of a change of settings would restore."""
        standing = self._stored(undone.group_id)
        return settings_to_restore(undone, standing, self._groups.settings_changed_since(undone))

    def undo_settings(self, change_id: str, change: ChangeRow, checked: Versions | None) -> ChangeRow | None:
        """Undo a change of settings, for the keys where nothing newer was set; return the recorded undo."""
        recorded = self._groups.change(change.change_id)
        if recorded is not None:
            return recorded.change
        undone = self._undoable(change_id)
        group_id = undone.group_id
        if self._have_changed(group_id, checked):
            return None
        standing = dict(self._stored(group_id))
        restored = self.restorable_settings(undone)
        self._set(group_id, restored, change)
        return self._undo(change_id, undo_of_settings(undone, change, standing, restored))

    def begin_undo(self, change_id: str, change: ChangeRow) -> ChangeRow:
        """Start the run that restores what a change archived; restore a deleted topic immediately."""
        recorded = self._groups.change(change.change_id)
        if recorded is not None:
            return recorded.change
        undone = self._undoable(change_id)
        if self._maintenance.is_cleanup(change_id):
            raise NotUndoable(NOTHING_TO_RESTORE)
        if self._maintenance.is_under_way(change_id):
            raise NotUndoable("its run is still applying; try again when it is applied")
        after: Json = {"undoes": change_id, "action": undone.action, "run_id": change.change_id}
        if undone.action == ChangeAction.DELETE_TOPIC:
            after["topic"] = self._restore_topic(undone.before)
        candidates = [
            CandidateRow(change.change_id, "", row.shard_id, row.group_id, row.topic, row.partition, 0)
            for row in self._groups.history.archived
            if row.change_id == change_id
        ]
        after["candidates"] = self._maintenance.begin(UNDO, change, candidates, change_id)
        return self._undo(change_id, replace(change, after=after))

    def _undoable(self, change_id: str) -> ChangeRow:
        found = self._groups.change(change_id)
        if found is None or found.undone_at_ms is not None:
            raise NotUndoable("it was undone already" if found else "the change does not exist")
        return found.change

    def _restore_topic(self, before: Json) -> Json:
        topic = before["topic"]
        if topic in self._topics:
            return {"topic": topic, "outcome": KEPT_NEWER}
        version = self.versions.topics + 1
        self.versions = self.versions._replace(topics=version)
        self._topics[topic] = TopicRow(**before, version=version)
        return {"topic": topic, "outcome": RESTORED}

    def _undo(self, change_id: str, change: ChangeRow) -> ChangeRow:
        self._groups.record_change(change)
        self._groups.history.undone.append(UndoneChange(change_id, change.at_ms, change.change_id))
        return change
