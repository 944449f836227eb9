"""Instants go out as RFC 3339 in UTC; lengths stay numbers of milliseconds."""

from datetime import UTC, datetime
from typing import Final

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def instant(at_ms: int) -> datetime:
    """Return a moment given in milliseconds since the epoch."""
    return datetime.fromtimestamp(at_ms / 1000, UTC)


def instant_or_none(at_ms: int | None) -> datetime | None:
    """Return a moment, or None where there is none."""
    return None if at_ms is None else instant(at_ms)
