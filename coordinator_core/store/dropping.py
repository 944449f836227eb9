"""A day of a history table that a run would have dropped: what became of it is one of a few words."""

from typing import Final, NamedTuple

HISTORY_ARCHIVE: Final = "history_archive"
"""The kind of the runs that name such days."""

DROPPED: Final = "dropped"
ALREADY_GONE: Final = "already_gone"
CHANGED_SINCE: Final = "changed_since"
"""Rows came, or went, since the copy was made."""
STILL_OPEN: Final = "still_open"
UNKNOWN_PARTITION: Final = "unknown_partition"


class DroppedDay(NamedTuple):
    """A row of `archive_candidates` with its outcome."""

    run_id: str
    table: str
    day: str
    """As 2026-01-31, in UTC."""
    row_count: int
    outcome: str
