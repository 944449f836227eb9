"""Reports of log ends as a store takes them, and deleted ends as changes keep them."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from coordinator_core.protocol.log_ends import LogEnd
from coordinator_core.store.rows import Json

NEVER_REPORTED_MS: Final = 0
"""The instant of an end that no reporter named: an offset was committed, so the log reaches it."""


class LogEndReport(NamedTuple):
    """The furthest end of a partition's log since the last report, and when it was named last."""

    topic: str
    partition: int
    log_end_offset: int
    reported_at_ms: int
    """NEVER_REPORTED_MS: a log that has a row reaches this offset, but its age stays; others get no row."""


def deleted_json(topic: str, ends: Mapping[int, LogEnd]) -> Json:
    """Return deleted ends as a change keeps them, by partition."""
    log_ends = [
        {"partition": partition, "log_end_offset": end.offset, "reported_at_ms": end.at_ms}
        for partition, end in sorted(ends.items())
    ]
    return {"topic": topic, "log_ends": log_ends}
