"""A day of a history table that a run would have dropped: what became of it is one of a few words."""

from collections.abc import Callable
from typing import Final, NamedTuple

HISTORY_ARCHIVE: Final = "history_archive"
"""The kind of the runs that name such days."""

DROPPED: Final = "dropped"
ALREADY_GONE: Final = "already_gone"
CHANGED_SINCE: Final = "changed_since"
"""Rows came, or went, since the copy was made."""
STILL_OPEN: Final = "still_open"
UNKNOWN_PARTITION: Final = "unknown_partition"
COPY_NOT_FOUND: Final = "copy_not_found"
"""This node finds no copy of the day with as many rows."""


class ClaimedCopy(NamedTuple):
    """Where a job says that it copied a day to, and how many rows it says that the copy has."""

    table: str
    day: str
    """As 2026-01-31, in UTC."""
    path: str
    row_count: int


HasCopy = Callable[[ClaimedCopy], bool]
"""Returns whether a copy is there."""


class DroppedDay(NamedTuple):
    """A row of `archive_candidates` with its outcome."""

    run_id: str
    table: str
    day: str
    """As 2026-01-31, in UTC."""
    row_count: int
    outcome: str
