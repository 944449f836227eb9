"""Settings and the catalogue are small, and every change of them raises a version that all nodes look at.

Rules:

* Changes of one kind come one after the other: each locks the row of `versions` first.
* A change whose id was seen before is not made again, so a caller may repeat it.
* The store fills in what was before and what is after.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sqlalchemy import ColumnElement, Table, delete, select, update
from sqlalchemy.dialects.postgresql import insert

from coordinator_core.store.actions import Action
from coordinator_core.store.log_ends import deleted_json
from coordinator_core.store.postgres import log_ends
from coordinator_core.store.postgres.changes import find_change, lock_undoable, note, was_made
from coordinator_core.store.postgres.connections import Transaction
from coordinator_core.store.postgres.instants import as_ms, from_ms
from coordinator_core.store.postgres.maintenance import begin_topic_deletion, begin_undo_run
from coordinator_core.store.postgres.statements import mark_undone
from coordinator_core.store.rows import ChangeRow, Json, SettingOrigin, StoredSettings, TopicRow, Undone
from coordinator_core.store.tables import cluster_config, group_configs, topics, versions
from coordinator_core.store.undoing import settings_to_restore, topic_json, undo_of_settings

# -- the catalogue ------------------------------------------------------------------------------------------


def read_topics(transaction: Transaction) -> list[TopicRow]:
    """Return the catalogue, by topic."""
    return [TopicRow(*row) for row in transaction.execute(select(topics).order_by(topics.c.topic))]


def put_topic(
    transaction: Transaction, topic: str, partitions: int, log_start_offset: int | None, change: ChangeRow
) -> TopicRow:
    """Put a topic, or raise its count.

    Raises:
        ValueError: the count would fall.
    """
    catalogue_version = _lock(transaction, versions.c.topics)
    before = _read_topic(transaction, topic)
    if before is not None and was_made(transaction, change.change_id):
        return before
    after = _raised(before, topic, partitions, log_start_offset, catalogue_version)
    if before is None or after.version != before.version:
        transaction.execute(update(versions).values(topics=after.version))
    row = {
        "topic": topic,
        "partitions": partitions,
        "log_start_offset": after.log_start_offset,
        "version": after.version,
    }
    transaction.execute(insert(topics).values(row).on_conflict_do_update(index_elements=["topic"], set_=row))
    note(
        transaction,
        replace(change, before=None if before is None else topic_json(before), after=topic_json(after)),
    )
    return after


def _raised(
    before: TopicRow | None, topic: str, partitions: int, log_start_offset: int | None, catalogue_version: int
) -> TopicRow:
    if before is None:
        return TopicRow(topic, partitions, log_start_offset or 0, catalogue_version + 1)
    if partitions < before.partitions:
        raise ValueError(f"topic {topic} has {before.partitions} partitions; their number can only grow")
    version = before.version if partitions == before.partitions else catalogue_version + 1
    start = before.log_start_offset if log_start_offset is None else log_start_offset
    return TopicRow(topic, partitions, start, version)


def _read_topic(transaction: Transaction, topic: str) -> TopicRow | None:
    row = transaction.execute(select(topics).where(topics.c.topic == topic)).first()
    return None if row is None else TopicRow(*row)


# -- settings -----------------------------------------------------------------------------------------------


def read_settings(transaction: Transaction) -> StoredSettings:
    """Return every stored setting."""
    cluster = _read_values(transaction, cluster_config, {})
    by_group: dict[str, dict[str, str]] = {}
    of_groups = select(group_configs.c.group_id, group_configs.c.key, group_configs.c.value)
    for group_id, key, value in transaction.execute(of_groups):
        by_group.setdefault(group_id, {})[key] = value
    return StoredSettings(cluster, by_group)


def put_settings(
    transaction: Transaction, group_id: str | None, values: Mapping[str, str | None], change: ChangeRow
) -> None:
    """Set what has a value and unset what is None, of a group or of the cluster."""
    version = versions.c.cluster_config if group_id is None else versions.c.group_configs
    _lock(transaction, version)
    if was_made(transaction, change.change_id):
        return
    table, owner = (cluster_config, {}) if group_id is None else (group_configs, {"group_id": group_id})
    before = _read_values(transaction, table, owner)
    _replace_values(transaction, table, owner, values, change)
    transaction.execute(update(versions).values({version: version + 1}))
    note(transaction, replace(change, before={key: before.get(key) for key in values}, after=dict(values)))


def read_origins(transaction: Transaction, group_id: str) -> dict[str, SettingOrigin]:
    """Return by whom and when each stored setting was set; the group's own comes before the cluster's."""
    origins: dict[str, SettingOrigin] = {}
    for table, owner in ((cluster_config, {}), (group_configs, {"group_id": group_id})):
        columns = (table.c.key, table.c.set_by, as_ms(table.c.set_at))
        for key, set_by, set_at_ms in transaction.execute(select(*columns).where(*_owned(table, owner))):
            origins[key] = SettingOrigin(set_by, set_at_ms)
    return origins


def _read_values(transaction: Transaction, table: Table, owner: Mapping[str, str]) -> dict[str, str]:
    rows = transaction.execute(select(table.c.key, table.c.value).where(*_owned(table, owner)))
    return {row.key: row.value for row in rows}


def _replace_values(
    transaction: Transaction,
    table: Table,
    owner: Mapping[str, str],
    values: Mapping[str, str | None],
    change: ChangeRow,
) -> None:
    transaction.execute(delete(table).where(table.c.key.in_(list(values)), *_owned(table, owner)))
    rows: list[dict[str, Any]] = [
        {**owner, "key": key, "value": value, "set_by": change.actor, "set_at": from_ms(change.at_ms)}
        for key, value in values.items()
        if value is not None
    ]
    if rows:
        transaction.execute(insert(table).values(rows))


def _owned(table: Table, owner: Mapping[str, str]) -> list[ColumnElement[bool]]:
    return [table.c[name] == value for name, value in owner.items()]


def undo_settings(transaction: Transaction, change_id: str, change: ChangeRow) -> ChangeRow:
    """Take a change of settings back where what it set still stands, and return the undo as noted."""
    _lock(transaction, versions.c.cluster_config)
    made = find_change(transaction, change.change_id)
    if made is not None:
        return made.change
    undone = lock_undoable(transaction, change_id)
    group_id = undone.group_id
    table, owner = (cluster_config, {}) if group_id is None else (group_configs, {"group_id": group_id})
    rows = transaction.execute(select(table.c.key, table.c.value, as_ms(table.c.set_at)).where(*_owned(table, owner)))
    standing = {key: (value, set_at_ms) for key, value, set_at_ms in rows}
    restored = settings_to_restore(undone, standing)
    _replace_values(transaction, table, owner, restored, change)
    version = versions.c.cluster_config if group_id is None else versions.c.group_configs
    transaction.execute(update(versions).values({version: version + 1}))
    mark_undone(transaction, [Undone(change_id, change.at_ms, change.change_id)])
    return note(transaction, undo_of_settings(undone, change, standing, restored))


# -- topics that go and come back --------------------------------------------------------------------------


def delete_topic(transaction: Transaction, topic: str, change: ChangeRow) -> ChangeRow | None:
    """Take a topic out of the catalogue, and begin the run that archives its offsets."""
    catalogue_version = _lock(transaction, versions.c.topics)
    made = find_change(transaction, change.change_id)
    if made is not None:
        return made.change
    row = _read_topic(transaction, topic)
    if row is None:
        return None
    transaction.execute(delete(topics).where(topics.c.topic == topic))
    log_ends.delete_log_ends(transaction, topic)
    raised = {"topics": catalogue_version + 1, "log_end_deletions": versions.c.log_end_deletions + 1}
    transaction.execute(update(versions).values(raised))
    candidates = begin_topic_deletion(transaction, topic, change)
    after = {"topic": topic, "run_id": change.change_id, "candidates": candidates}
    return note(transaction, replace(change, before=topic_json(row), after=after))


def begin_undo(transaction: Transaction, change_id: str, change: ChangeRow) -> ChangeRow:
    """Begin the run that takes back what a change archived; a topic that was deleted returns at once."""
    catalogue_version = _lock(transaction, versions.c.topics)
    made = find_change(transaction, change.change_id)
    if made is not None:
        return made.change
    undone = lock_undoable(transaction, change_id)
    after: Json = {"undoes": change_id, "action": undone.action, "run_id": change.change_id}
    if undone.action == Action.DELETE_TOPIC:
        after["topic"] = _restore_topic(transaction, undone.before, catalogue_version)
    after["candidates"] = begin_undo_run(transaction, change_id, change)
    mark_undone(transaction, [Undone(change_id, change.at_ms, change.change_id)])
    return note(transaction, replace(change, after=after))


def _restore_topic(transaction: Transaction, before: Json, catalogue_version: int) -> Json:
    """Put a topic into the catalogue again, unless there is one of its name."""
    if _read_topic(transaction, before["topic"]) is not None:
        return {"topic": before["topic"], "outcome": "newer_there"}
    transaction.execute(insert(topics).values({**before, "version": catalogue_version + 1}))
    transaction.execute(update(versions).values(topics=catalogue_version + 1))
    return {"topic": before["topic"], "outcome": "restored"}


# -- ends of logs -------------------------------------------------------------------------------------------


def delete_log_ends(transaction: Transaction, topic: str, partition: int | None, change: ChangeRow) -> ChangeRow:
    """Delete the known ends of a topic's logs, or of one, and record the change with what they were."""
    deletions = _lock(transaction, versions.c.log_end_deletions)
    made = find_change(transaction, change.change_id)
    if made is not None:
        return made.change
    ends = log_ends.delete_log_ends(transaction, topic, partition)
    transaction.execute(update(versions).values(log_end_deletions=deletions + 1))
    after = {"topic": topic, "partition": partition}
    return note(transaction, replace(change, before=deleted_json(topic, ends), after=after))


# -- order --------------------------------------------------------------------------------------------------


def _lock(transaction: Transaction, version: ColumnElement[int]) -> int:
    """Wait for whoever changes a small table just now; return the version."""
    return int(transaction.execute(select(version).select_from(versions).with_for_update()).scalar_one())
