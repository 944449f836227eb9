"""Member sessions: the gaps between heartbeats, written as one row per session and hour.

* *Activity* is everything that resets the session timer: heartbeats, commits, syncs and joins.
* A gap starts when the session timer starts, or with the previous activity, and ends with the next activity. The
  silence before the end of a session is no gap; it is the time from `last_heartbeat_at` to the end.
* Measuring costs a heartbeat a few additions and no write. The end of a session is written with the record that ended
  it. The interval of a session that goes on is background work (runtime/shard_scan.py).
* A crash loses the measurements of the current interval, not the session: the next row says since when it measured,
  and when the member joined.
* Gaps exclude time in which the member waited for others or could not be heard: while its join is parked, while the
  node was paused or in doubt about its lease, and from a failover until the member's next request.

Source: tables.md, `member_sessions`.
"""

from typing import Final

from coordinator_core.analytics.advice.evidence import GAP_BOUNDS_MS
from coordinator_core.protocol.settings import Now
from coordinator_core.state_store.rows import MemberSessionRow

BEYOND: Final = len(GAP_BOUNDS_MS)
"""Index of the histogram's count of longer gaps."""

INTERVAL_MS: Final = 3_600_000
"""The length of an interval: a session that continues has a row for each."""

GAP_MAX_MS: Final = 2**31 - 1
"""The maximum of the column; no session timeout is as long."""

MAX_ROWS_PER_WRITE: Final = 500
"""Rows of the sessions of one group in one transaction; the rest of a large group follows with the next scan."""

NO_DEADLINE_MS: Final = 2**63 - 1
"""Later than any node time."""

NEXT_TIMER_START: Final = -1
"""No gap has started; one starts with the session timer."""
NEXT_HEARTBEAT: Final = -2
"""No gap has started, and the session timer starts none: only activity does, or the timer after a join phase."""


class MemberSession:
    """One member session, from the first join until the member leaves, with the measurements since its last row."""

    __slots__ = (
        "client_host",
        "client_id",
        "gap_ms_max",
        "gap_start_ms",
        "gaps",
        "group_instance_id",
        "heartbeat_count",
        "interval_start_ms",
        "joined_at_ms",
        "last_heartbeat_at_ms",
        "session_timeout_ms",
    )

    def __init__(
        self,
        *,
        client_id: str,
        client_host: str,
        group_instance_id: str | None,
        session_timeout_ms: int,
        joined_at_ms: int,
        interval_start_ms: int,
        gap_start_ms: int = NEXT_HEARTBEAT,
    ) -> None:
        self.client_id = client_id
        self.client_host = client_host
        self.group_instance_id = group_instance_id
        self.session_timeout_ms = session_timeout_ms
        """The requested timeout until the timer starts, then the last effective one."""
        self.joined_at_ms = joined_at_ms
        self.gap_start_ms = gap_start_ms
        """Node time, or NEXT_TIMER_START or NEXT_HEARTBEAT, which are below any."""
        self.last_heartbeat_at_ms: int | None = None
        """Wall time of the last activity, which may be before the interval."""
        self._measure_from(interval_start_ms)

    def _measure_from(self, at_ms: int) -> None:
        self.interval_start_ms = at_ms
        """Wall time at which the next row starts."""
        self.heartbeat_count = 0
        self.gap_ms_max = -1
        """-1: no gap yet."""
        self.gaps = [0] * (BEYOND + 1)

    # -- measurements --------------------------------------------------------------------------------

    def record_activity(self, now: Now, stalled_after_ms: int) -> None:
        """Record activity. Every heartbeat calls this, so it costs a few additions.

        Args:
            now: when the request arrived.
            stalled_after_ms: node time after which the event loop has paused: the time of arrival is not known then, so
                no gap ends.
        """
        node_ms, start_ms = now.node_ms, self.gap_start_ms
        if start_ms >= 0 and node_ms <= stalled_after_ms:
            gap_ms = node_ms - start_ms
            bucket = (gap_ms - 1).bit_length() if gap_ms > 1 else 0
            self.gaps[bucket if bucket < BEYOND else BEYOND] += 1  # noqa: FURB136 - every heartbeat: a call costs more
            if gap_ms > self.gap_ms_max:  # noqa: PLR1730 - as above
                self.gap_ms_max = gap_ms
        self.gap_start_ms = node_ms
        self.last_heartbeat_at_ms = now.wall_ms
        self.heartbeat_count += 1

    def timer_started(self, node_ms: int, session_timeout_ms: int) -> None:
        """Record a start of the session timer."""
        if self.gap_start_ms != NEXT_HEARTBEAT:
            self.gap_start_ms = node_ms
            self.session_timeout_ms = session_timeout_ms

    def discard_gap(self, until: int = NEXT_TIMER_START) -> None:
        """Discard the current gap; measure none until the session timer starts, or (NEXT_HEARTBEAT) until activity."""
        self.gap_start_ms = until

    def join_phase_ended(self) -> None:
        """Let the next start of the session timer start a gap."""
        if self.gap_start_ms == NEXT_HEARTBEAT:
            self.gap_start_ms = NEXT_TIMER_START

    def exclude_pause(self, length_ms: int, node_ms: int) -> None:
        """Exclude time in which the node processed no requests from the current gap."""
        if self.gap_start_ms >= 0:
            self.gap_start_ms = min(node_ms, self.gap_start_ms + length_ms)

    # -- rows ----------------------------------------------------------------------------------------

    def close_interval(
        self,
        *,
        group_id: str,
        shard_id: int,
        group_created_at_ms: int,
        generation: int,
        member_id: str,
        at_ms: int,
        end_reason: str,
    ) -> MemberSessionRow:
        """Return the row of the interval that ends at `at_ms`, and start the next interval.

        After a failover `at_ms` is of another node's clock; if that is behind, the row has no length.
        """
        ended_at_ms = max(at_ms, self.interval_start_ms)
        row = MemberSessionRow(
            group_id=group_id,
            shard_id=shard_id,
            group_created_at_ms=group_created_at_ms,
            member_id=member_id,
            group_instance_id=self.group_instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            generation=generation,
            session_timeout_ms=self.session_timeout_ms,
            joined_at_ms=self.joined_at_ms,
            started_at_ms=self.interval_start_ms,
            ended_at_ms=ended_at_ms,
            end_reason=end_reason,
            last_heartbeat_at_ms=self.last_heartbeat_at_ms,
            heartbeat_count=self.heartbeat_count,
            heartbeat_gap_ms_max=None if self.gap_ms_max < 0 else min(self.gap_ms_max, GAP_MAX_MS),
            heartbeat_gap_histogram=tuple(self.gaps),
        )
        self._measure_from(ended_at_ms)
        return row
