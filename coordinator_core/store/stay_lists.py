"""Stays are listed row by row, the newest first, and of each that is over it is told when the same client was back.

The same client is the same instance id, or without one the same client id from the same host, under another member id.
Whose successor joined while it was silent, before it was put out, was dead: that is told, and nobody is back.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

from coordinator_core.protocol.reports.eviction_cause import EvictionCause, eviction_cause
from coordinator_core.store.history import END_OF_TIME_MS
from coordinator_core.store.rows import MemberSessionRow

BACK_WITHIN_MS: Final = 60_000
"""Who joins later than that after a stay is not told of as back; the view `spurious_evictions` says the same."""

GOES_ON: Final = "hour"
"""The `end_reason` of a row after which its stay goes on."""


class StayPlace(NamedTuple):
    """Where a page of stays ended."""

    ended_at_ms: int
    member_id: str


@dataclass(frozen=True, slots=True)
class StayFilter:
    """Which rows of `member_sessions` are asked for."""

    group_id: str
    from_ms: int = 0
    to_ms: int = END_OF_TIME_MS
    """The first instant that is not part of it; rows count by when they ended."""
    end_reasons: tuple[str, ...] = ()
    """None: whatever ended them."""


@dataclass(frozen=True, slots=True)
class ListedStay:
    """A row of `member_sessions`, and when its client was back."""

    row: MemberSessionRow
    back_at_ms: int | None
    """None: not within BACK_WITHIN_MS, or the stay goes on, or the member had a successor already."""
    successor_at_ms: int | None = None
    """Of a member that was put out: when its client had joined again by then, after the member was last heard."""

    @property
    def silent_ms(self) -> int:
        """Return how long the member had been silent when its session ended, as far as this row tells."""
        since_ms = self.row.started_at_ms if self.row.last_heartbeat_at_ms is None else self.row.last_heartbeat_at_ms
        return max(0, self.row.ended_at_ms - since_ms)

    @property
    def cause(self) -> EvictionCause | None:
        """Return why the member was evicted; None if it was not."""
        row = self.row
        return eviction_cause(row.end_reason, self.silent_ms, row.heartbeat_gap_ms_max, row.session_timeout_ms)

    @property
    def late_by_ms(self) -> int | None:
        """Return how long after its eviction a live member joined; None if it did not, or was silent or not evicted."""
        is_late = self.cause in {EvictionCause.LATE_JOIN, EvictionCause.LATE_SYNC}
        return self.back_at_ms - self.row.ended_at_ms if is_late and self.back_at_ms is not None else None

    @property
    def place(self) -> StayPlace:
        """Return where a page that ends here ends."""
        return StayPlace(self.row.ended_at_ms, self.row.member_id)
