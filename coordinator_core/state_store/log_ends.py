"""Values for log ends: the reports that a store takes, and deleted log ends in the form that `changes` stores."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from coordinator_core.protocol.log_ends import LogEnd
from coordinator_core.state_store.rows import Json

NEVER_REPORTED_MS: Final = 0
"""The time of a log end that no reporter reported: an offset was committed, so the log reaches it."""


class LogEndReport(NamedTuple):
    """The highest log end of a partition since the last report, and when it was last reported."""

    topic: str
    partition: int
    log_end_offset: int
    reported_at_ms: int
    """NEVER_REPORTED_MS: raises the log end of a partition that has a row, but not its time; adds no row."""


def deleted_json(topic: str, ends: Mapping[int, LogEnd]) -> Json:
    """Return deleted log ends in the form that `changes` stores, by partition."""
    log_ends = [
        {"partition": partition, "log_end_offset": end.offset, "reported_at_ms": end.at_ms}
        for partition, end in sorted(ends.items())
    ]
    return {"topic": topic, "log_ends": log_ends}
