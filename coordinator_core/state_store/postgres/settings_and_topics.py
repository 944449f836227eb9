"""Settings and topic metadata: every change raises a version, which all nodes poll.

Rules:

* Changes of one kind are serialized: each locks the row of `versions` first.
* A change whose id exists already is not made again, so a caller may repeat it.
* The store fills in `before` and `after` of the change.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sqlalchemy import ColumnElement, Table, delete, func, select, update
from sqlalchemy.dialects.postgresql import insert

from coordinator_core.state_store.audit_tables import changes
from coordinator_core.state_store.change_actions import ChangeAction
from coordinator_core.state_store.log_ends import deleted_json
from coordinator_core.state_store.postgres import log_ends
from coordinator_core.state_store.postgres.changes import change_exists, find_change, lock_undoable, record_change
from coordinator_core.state_store.postgres.connections import Transaction
from coordinator_core.state_store.postgres.maintenance import begin_topic_deletion, begin_undo_run
from coordinator_core.state_store.postgres.statements import mark_undone
from coordinator_core.state_store.postgres.timestamps import as_ms, from_ms
from coordinator_core.state_store.rows import ChangeRow, Json, StoredSettings, TopicRow, UndoneChange, Versions
from coordinator_core.state_store.tables import cluster_configs, group_configs, topics, versions
from coordinator_core.state_store.undo import settings_to_restore, topic_json, undo_of_settings

# -- the topic metadata ------------------------------------------------------------------------------------------


def read_topics(transaction: Transaction, after: str = "", limit: int | None = None) -> list[TopicRow]:
    """Return the metadata of the topics after one, by topic; at most `limit` of them."""
    wanted = select(topics).where(topics.c.topic > after).order_by(topics.c.topic).limit(limit)
    return [TopicRow(*row) for row in transaction.execute(wanted)]


def put_topic(
    transaction: Transaction, topic: str, partitions: int, log_start_offset: int | None, change: ChangeRow
) -> TopicRow:
    """Add a topic, or raise its number of partitions.

    Raises:
        ValueError: the topic has more partitions.
    """
    metadata_version = _lock(transaction, versions.c.topics)
    before = _read_topic(transaction, topic)
    if before is not None and change_exists(transaction, change.change_id):
        return before
    after = _raised(before, topic, partitions, log_start_offset, metadata_version)
    if before is None or after.version != before.version:
        transaction.execute(update(versions).values(topics=after.version))
    row = {
        "topic": topic,
        "partitions": partitions,
        "log_start_offset": after.log_start_offset,
        "version": after.version,
    }
    transaction.execute(insert(topics).values(row).on_conflict_do_update(index_elements=["topic"], set_=row))
    record_change(
        transaction,
        replace(change, before=None if before is None else topic_json(before), after=topic_json(after)),
    )
    return after


def _raised(
    before: TopicRow | None, topic: str, partitions: int, log_start_offset: int | None, metadata_version: int
) -> TopicRow:
    if before is None:
        return TopicRow(topic, partitions, log_start_offset or 0, metadata_version + 1)
    if partitions < before.partitions:
        raise ValueError(f"topic {topic} has {before.partitions} partitions; their number can only grow")
    version = before.version if partitions == before.partitions else metadata_version + 1
    start = before.log_start_offset if log_start_offset is None else log_start_offset
    return TopicRow(topic, partitions, start, version)


def _read_topic(transaction: Transaction, topic: str) -> TopicRow | None:
    row = transaction.execute(select(topics).where(topics.c.topic == topic)).first()
    return None if row is None else TopicRow(*row)


# -- settings -----------------------------------------------------------------------------------------------


def read_settings(transaction: Transaction) -> StoredSettings:
    """Return every stored setting."""
    cluster = _read_values(transaction, cluster_configs, {})
    by_group: dict[str, dict[str, str]] = {}
    of_groups = select(group_configs.c.group_id, group_configs.c.key, group_configs.c.value)
    for group_id, key, value in transaction.execute(of_groups):
        by_group.setdefault(group_id, {})[key] = value
    return StoredSettings(cluster, by_group)


def put_settings(
    transaction: Transaction,
    group_id: str | None,
    values: Mapping[str, str | None],
    change: ChangeRow,
    checked: Versions | None = None,
) -> bool:
    """Set or (None) unset settings of a group, or of the cluster (None); return whether they are stored."""
    version = versions.c.cluster_configs if group_id is None else versions.c.group_configs
    _lock(transaction, version)
    if change_exists(transaction, change.change_id) or _have_changed(transaction, group_id, checked):
        return False
    table, owner = _table_of(group_id)
    before = _read_values(transaction, table, owner)
    change = replace(change, at_ms=max(change.at_ms, _newest_ms(transaction, group_id) + 1))
    _replace_values(transaction, table, owner, values, change)
    transaction.execute(update(versions).values({version: version + 1}))
    record_change(transaction, replace(change, before={key: before.get(key) for key in values}, after=dict(values)))
    return True


def _have_changed(transaction: Transaction, group_id: str | None, checked: Versions | None) -> bool:
    """Return whether settings that matter for a change of a group's, or of the cluster's, were changed since `checked`.

    The owner of a group changes the group's settings one by one.
    """
    kinds = [versions.c.cluster_configs, *([versions.c.group_configs] if group_id is None else [])]
    stored = transaction.execute(select(*kinds)).one()
    return checked is not None and tuple(stored) != checked[: len(kinds)]


def _newest_ms(transaction: Transaction, group_id: str | None) -> int:
    """Return the time of the newest change of a group's settings, or of the cluster's; 0 if there is none.

    A later change has a later time, whatever the clock of its node: undo goes by the order of changes.
    """
    newest = select(as_ms(func.max(changes.c.at))).where(
        changes.c.action == ChangeAction.PUT_SETTINGS, changes.c.group_id == group_id
    )
    return int(transaction.execute(newest).scalar_one() or 0)


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


def _table_of(group_id: str | None) -> tuple[Table, dict[str, str]]:
    """Return the table of the settings of a group, or of the cluster (None), and the columns that name their owner."""
    return (cluster_configs, {}) if group_id is None else (group_configs, {"group_id": group_id})


def _owned(table: Table, owner: Mapping[str, str]) -> list[ColumnElement[bool]]:
    return [table.c[name] == value for name, value in owner.items()]


def undo_settings(
    transaction: Transaction, change_id: str, change: ChangeRow, checked: Versions | None = None
) -> ChangeRow | None:
    """Undo a change of settings, for the keys that were not set again since; return the recorded undo."""
    _lock(transaction, versions.c.cluster_configs)
    recorded = find_change(transaction, change.change_id)
    if recorded is not None:
        return recorded.change
    undone = lock_undoable(transaction, change_id)
    group_id = undone.group_id
    if _have_changed(transaction, group_id, checked):
        return None
    table, owner = _table_of(group_id)
    current = _read_values(transaction, table, owner)
    restored = settings_to_restore(undone, current, _changed_since(transaction, undone))
    _replace_values(transaction, table, owner, restored, change)
    version = versions.c.cluster_configs if group_id is None else versions.c.group_configs
    transaction.execute(update(versions).values({version: version + 1}))
    mark_undone(transaction, [UndoneChange(change_id, change.at_ms, change.change_id)])
    return record_change(transaction, undo_of_settings(undone, change, current, restored))


def restorable_settings(transaction: Transaction, undone: ChangeRow) -> dict[str, str | None]:
    """Return the values that an undo of a change of settings would restore."""
    current = _read_values(transaction, *_table_of(undone.group_id))
    return settings_to_restore(undone, current, _changed_since(transaction, undone))


def _changed_since(transaction: Transaction, undone: ChangeRow) -> set[str]:
    """Return the keys that later changes of the same settings have set, without changes that were undone."""
    later = select(changes.c.after).where(
        changes.c.action == ChangeAction.PUT_SETTINGS,
        changes.c.group_id == undone.group_id,
        changes.c.at > from_ms(undone.at_ms),
        changes.c.undone_at.is_(None),
    )
    return {key for (after,) in transaction.execute(later) for key in after}


# -- deleting and restoring topics -------------------------------------------------------------------------


def delete_topic(transaction: Transaction, topic: str, change: ChangeRow) -> ChangeRow | None:
    """Delete a topic, and start the run that archives its offsets."""
    metadata_version = _lock(transaction, versions.c.topics)
    recorded = find_change(transaction, change.change_id)
    if recorded is not None:
        return recorded.change
    row = _read_topic(transaction, topic)
    if row is None:
        return None
    transaction.execute(delete(topics).where(topics.c.topic == topic))
    log_ends.delete_log_ends(transaction, topic)
    raised = {"topics": metadata_version + 1, "log_end_deletions": versions.c.log_end_deletions + 1}
    transaction.execute(update(versions).values(raised))
    candidates = begin_topic_deletion(transaction, topic, change)
    after = {"topic": topic, "run_id": change.change_id, "candidates": candidates}
    return record_change(transaction, replace(change, before=topic_json(row), after=after))


def begin_undo(transaction: Transaction, change_id: str, change: ChangeRow) -> ChangeRow:
    """Start the run that restores what a change archived; restore a deleted topic immediately."""
    metadata_version = _lock(transaction, versions.c.topics)
    recorded = find_change(transaction, change.change_id)
    if recorded is not None:
        return recorded.change
    undone = lock_undoable(transaction, change_id)
    after: Json = {"undoes": change_id, "action": undone.action, "run_id": change.change_id}
    if undone.action == ChangeAction.DELETE_TOPIC:
        after["topic"] = _restore_topic(transaction, undone.before, metadata_version)
    after["candidates"] = begin_undo_run(transaction, change_id, change)
    mark_undone(transaction, [UndoneChange(change_id, change.at_ms, change.change_id)])
    return record_change(transaction, replace(change, after=after))


def _restore_topic(transaction: Transaction, before: Json, metadata_version: int) -> Json:
    """Restore a topic, unless one of its name exists."""
    if _read_topic(transaction, before["topic"]) is not None:
        return {"topic": before["topic"], "outcome": "newer_there"}
    transaction.execute(insert(topics).values({**before, "version": metadata_version + 1}))
    transaction.execute(update(versions).values(topics=metadata_version + 1))
    return {"topic": before["topic"], "outcome": "restored"}


# -- log ends -----------------------------------------------------------------------------------------------


def delete_log_ends(transaction: Transaction, topic: str, partition: int | None, change: ChangeRow) -> ChangeRow:
    """Delete the log ends of a topic, or of one partition, and record the change with their values."""
    deletions = _lock(transaction, versions.c.log_end_deletions)
    recorded = find_change(transaction, change.change_id)
    if recorded is not None:
        return recorded.change
    ends = log_ends.delete_log_ends(transaction, topic, partition)
    transaction.execute(update(versions).values(log_end_deletions=deletions + 1))
    after = {"topic": topic, "partition": partition}
    return record_change(transaction, replace(change, before=deleted_json(topic, ends), after=after))


# -- locking ------------------------------------------------------------------------------------------------


def _lock(transaction: Transaction, version: ColumnElement[int]) -> int:
    """Lock the row of `versions`, and return one of its columns."""
    return int(transaction.execute(select(version).select_from(versions).with_for_update()).scalar_one())
