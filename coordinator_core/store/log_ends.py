"""Reports of log ends as a store takes them."""

from typing import Final, NamedTuple

NEVER_REPORTED_MS: Final = 0
"""The instant of an end that no reporter named: an offset was committed, so the log reaches it."""


class LogEndReport(NamedTuple):
    """The furthest end of a partition's log since the last report, and when it was named last."""

    topic: str
    partition: int
    log_end_offset: int
    reported_at_ms: int
    """NEVER_REPORTED_MS: a log that has a row reaches this offset, but its age stays; others get no row."""
