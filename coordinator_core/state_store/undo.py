"""Undo: which settings it restores, those that were not set again since; and why others have nothing to restore."""

from collections.abc import Collection, Mapping
from dataclasses import replace

from coordinator_core.protocol.restore import KEPT_NEWER, RESTORED
from coordinator_core.state_store.rows import ChangeRow, Json, TopicRow

NOTHING_TO_RESTORE = "the run retired groups, which had nothing to restore"


def settings_to_restore(
    undone: ChangeRow, current: Mapping[str, str], changed_since: Collection[str]
) -> dict[str, str | None]:
    """Return the values before the change, of the keys that have its values.

    Args:
        undone: the change.
        current: key → the current value.
        changed_since: the keys that later changes have set, without changes that were undone themselves.
    """
    return {
        key: undone.before[key]
        for key, value in undone.after.items()
        if current.get(key) == value and key not in changed_since
    }


def undo_of_settings(
    undone: ChangeRow, change: ChangeRow, current: Mapping[str, str], restored: Mapping[str, str | None]
) -> ChangeRow:
    """Return the undo with its `before` and `after`: each key with its outcome and its value after the undo."""
    values = {key: current.get(key) for key in undone.after}
    settings = [
        {"key": key, "outcome": RESTORED, "value": restored[key]}
        if key in restored
        else {"key": key, "outcome": KEPT_NEWER, "value": value}
        for key, value in sorted(values.items())
    ]
    after = {"undoes": undone.change_id, "action": undone.action, "settings": settings}
    return replace(change, before=values, after=after)


def topic_json(row: TopicRow) -> Json:
    """Return a topic in the form that `changes` stores."""
    return {"topic": row.topic, "partitions": row.partitions, "log_start_offset": row.log_start_offset}
