"""Dropping of archived history: the candidate days and their outcomes."""

from collections.abc import Callable
from typing import Final, NamedTuple

HISTORY_ARCHIVE: Final = "history_archive"
"""The kind of the runs that propose days to drop."""

DROPPED: Final = "dropped"
ALREADY_GONE: Final = "already_gone"
CHANGED_SINCE: Final = "changed_since"
"""Rows were added or deleted since the copy was made."""
STILL_OPEN: Final = "still_open"
UNKNOWN_PARTITION: Final = "unknown_partition"
COPY_NOT_FOUND: Final = "copy_not_found"
"""The node finds no copy of the day with as many rows."""


class ClaimedCopy(NamedTuple):
    """The copy of a day that a job reports: its directory and number of rows."""

    table: str
    day: str
    """As 2026-01-31, in UTC."""
    path: str
    row_count: int


HasCopy = Callable[[ClaimedCopy], bool]
"""Returns whether a copy exists."""


class DroppedDay(NamedTuple):
    """A row of `archive_candidates` with its outcome."""

    run_id: str
    table: str
    day: str
    """As 2026-01-31, in UTC."""
    row_count: int
    outcome: str
