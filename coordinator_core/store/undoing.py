"""A setting is taken back where what was set still stands; every store does it by these functions."""

from collections.abc import Mapping
from dataclasses import replace

from coordinator_core.store.rows import ChangeRow, Json, TopicRow

RESTORED = "restored"
NEWER = "newer_there"

Standing = Mapping[str, tuple[str, int]]
"""Key → the value that is set now, and the instant at which it was."""


def settings_to_restore(undone: ChangeRow, standing: Standing) -> dict[str, str | None]:
    """Return the values before the change, of the keys that nobody has set since."""
    return {key: undone.before[key] for key, value in undone.after.items() if _stands(undone, key, value, standing)}


def _stands(undone: ChangeRow, key: str, value: str | None, standing: Standing) -> bool:
    if value is None:
        return key not in standing
    return standing.get(key) == (value, undone.at_ms)


def undo_of_settings(
    undone: ChangeRow, change: ChangeRow, standing: Standing, restored: Mapping[str, str | None]
) -> ChangeRow:
    """Return the undo as it is noted: every key with what became of it, and its value from now on."""
    values = {key: standing[key][0] if key in standing else None for key in undone.after}
    settings = [
        {"key": key, "outcome": RESTORED, "value": restored[key]}
        if key in restored
        else {"key": key, "outcome": NEWER, "value": value}
        for key, value in sorted(values.items())
    ]
    after = {"undoes": undone.change_id, "action": undone.action, "settings": settings}
    return replace(change, before=values, after=after)


def topic_json(row: TopicRow) -> Json:
    """Return a topic as changes keep it."""
    return {"topic": row.topic, "partitions": row.partitions, "log_start_offset": row.log_start_offset}
