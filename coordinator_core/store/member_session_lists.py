"""Lists of member sessions, the newest first, each with the time at which the same client reconnected.

The same client is the same instance id, or without one the same client id from the same host, under another member id.
If it joined again while the old member was silent, before the eviction, the old member was dead: this join is the
*successor*, and there is no reconnect.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

from coordinator_core.analytics.eviction_cause import EvictionCause, eviction_cause
from coordinator_core.store.history import END_OF_TIME_MS
from coordinator_core.store.rows import MemberSessionRow

RECONNECT_WINDOW_MS: Final = 60_000
"""A later join after the end of a session is no reconnect. The view `spurious_evictions` uses the same limit."""

ONGOING: Final = "hour"
"""The `end_reason` of a row whose session continues."""


class MemberSessionCursor(NamedTuple):
    """The last row of a page of member sessions."""

    ended_at_ms: int
    member_id: str


@dataclass(frozen=True, slots=True)
class MemberSessionFilter:
    """Selects rows of `member_sessions`."""

    group_id: str
    from_ms: int = 0
    to_ms: int = END_OF_TIME_MS
    """The end of the time range, exclusive; rows are selected by `ended_at`."""
    end_reasons: tuple[str, ...] = ()
    """Empty: any."""


@dataclass(frozen=True, slots=True)
class ListedMemberSession:
    """A row of `member_sessions`, and when its client reconnected."""

    row: MemberSessionRow
    reconnected_at_ms: int | None
    """None: not within RECONNECT_WINDOW_MS, or the session continues, or the member had a successor already."""
    successor_at_ms: int | None = None
    """Of an evicted member: when its client had joined again before the eviction, after the last heartbeat."""

    @property
    def silent_ms(self) -> int:
        """Return the time from the member's last activity in this row to the end of its session."""
        since_ms = self.row.started_at_ms if self.row.last_heartbeat_at_ms is None else self.row.last_heartbeat_at_ms
        return max(0, self.row.ended_at_ms - since_ms)

    @property
    def cause(self) -> EvictionCause | None:
        """Return why the member was evicted; None if it was not."""
        row = self.row
        return eviction_cause(row.end_reason, self.silent_ms, row.heartbeat_gap_ms_max, row.session_timeout_ms)

    @property
    def late_by_ms(self) -> int | None:
        """Return how long after its eviction a live member joined; None unless it was evicted alive and reconnected."""
        is_late = self.cause in {EvictionCause.LATE_JOIN, EvictionCause.LATE_SYNC}
        return self.reconnected_at_ms - self.row.ended_at_ms if is_late and self.reconnected_at_ms is not None else None

    @property
    def cursor(self) -> MemberSessionCursor:
        """Return the cursor of a page that ends here."""
        return MemberSessionCursor(self.row.ended_at_ms, self.row.member_id)
