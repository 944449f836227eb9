"""Undo of settings: restores the previous values of keys that were not set again since."""

from collections.abc import Mapping
from dataclasses import replace

from coordinator_core.protocol.restore import KEPT_NEWER, RESTORED
from coordinator_core.state_store.rows import ChangeRow, Json, TopicRow

CurrentValues = Mapping[str, tuple[str, int]]
"""Key → the current value, and the time at which it was set."""


def settings_to_restore(undone: ChangeRow, current: CurrentValues) -> dict[str, str | None]:
    """Return the values before the change, of the keys that were not set again since."""
    return {key: undone.before[key] for key, value in undone.after.items() if _is_current(undone, key, value, current)}


def _is_current(undone: ChangeRow, key: str, value: str | None, current: CurrentValues) -> bool:
    if value is None:
        return key not in current
    return current.get(key) == (value, undone.at_ms)


def undo_of_settings(
    undone: ChangeRow, change: ChangeRow, current: CurrentValues, restored: Mapping[str, str | None]
) -> ChangeRow:
    """Return the undo with its `before` and `after`: each key with its outcome and its value after the undo."""
    values = {key: current[key][0] if key in current else None for key in undone.after}
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
