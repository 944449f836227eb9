"""Settings of the archive from the environment: its directory, and how long history is kept in Postgres."""

import os
from pathlib import Path

from spark_jobs.errors import JobError

DEFAULT_KEEP_DAYS = 30
KEEP_MAX_DAYS = 3_650


def archive_uri(beside: Path | None = None) -> str:
    """Return the archive's directory: `MUSTER_ARCHIVE_URI`, else `archive` in a local directory.

    Args:
        beside: The local directory; None returns an empty text, which disables the archive.
    """
    named = os.environ.get("MUSTER_ARCHIVE_URI", "").strip()
    if named or beside is None:
        return named
    return (beside / "archive").resolve().as_uri()


def keep_days() -> int:
    """Return the days of history kept in Postgres: `MUSTER_HISTORY_KEEP_DAYS`, else 30.

    Raises:
        JobError: The setting is not a whole number from 1 to KEEP_MAX_DAYS.
    """
    text = os.environ.get("MUSTER_HISTORY_KEEP_DAYS", "").strip() or str(DEFAULT_KEEP_DAYS)
    try:
        days = int(text)
    except ValueError:
        days = 0
    if not 1 <= days <= KEEP_MAX_DAYS:
        raise JobError(f"MUSTER_HISTORY_KEEP_DAYS is {text!r}; it must be a whole number from 1 to {KEEP_MAX_DAYS}.")
    return days
