"""A stay is measured by what its member lets pass between two signs of life, and is told when it ends, or by the hour.

* A sign of life is what keeps a session alive: a heartbeat, a commit, a sync, a join.
* A gap begins when the session's timer starts, or at the sign before, and ends with the sign: a few whole numbers of
  node time. Silence that no sign ended is no gap; it lies between `last_heartbeat_at` and the end of the stay.
* Time in which the member could not be heard, or was waiting for others, is none of its gaps: while its join is
  parked, while the node stood still or doubted its lease, and from a take-over until it is heard again.

Source: tables.md, `member_sessions`.
"""

from typing import Final

from coordinator_core.store.rows import MemberSessionRow

GAP_BOUNDS_MS: Final = tuple(1 << power for power in range(22))
"""A histogram counts gaps of at most 1 ms, 2 ms, 4 ms … 2^21 ms (35 minutes), each beyond the bound before, and the
rest: the longest session that members may ask for is 30 minutes, unless an operator allows more."""

BEYOND: Final = len(GAP_BOUNDS_MS)
"""Which of the counts is of longer ones."""

HOUR_MS: Final = 3_600_000
"""A stay that is longer is told in pieces of this length."""

LONGEST_TOLD_MS: Final = 2**31 - 1
"""What the column holds at most; nobody's session is as long."""

NOT_YET: Final = -1
"""No gap is under way; one begins when the session's timer starts."""
NOT_HEARD: Final = -2
"""No gap is under way, and a timer that starts begins none: only a sign of life does, or the end of a join phase."""


class Stay:
    """One member's stay, from its first join until it goes, and what was measured since its last row."""

    __slots__ = (
        "client_host",
        "client_id",
        "gap_began_ms",
        "gap_ms_max",
        "gaps",
        "group_instance_id",
        "heard_count",
        "joined_at_ms",
        "last_heard_at_ms",
        "session_timeout_ms",
        "told_until_ms",
    )

    def __init__(
        self,
        *,
        client_id: str,
        client_host: str,
        group_instance_id: str | None,
        session_timeout_ms: int,
        joined_at_ms: int,
        told_until_ms: int,
        gap_began_ms: int = NOT_HEARD,
    ) -> None:
        self.client_id = client_id
        self.client_host = client_host
        self.group_instance_id = group_instance_id
        self.session_timeout_ms = session_timeout_ms
        """As asked until a session began, then as it was in force last."""
        self.joined_at_ms = joined_at_ms
        self.gap_began_ms = gap_began_ms
        """Node time, or NOT_YET or NOT_HEARD, which are below any."""
        self._measure_from(told_until_ms)

    def _measure_from(self, at_ms: int) -> None:
        self.told_until_ms = at_ms
        """Wall time where the row to come begins."""
        self.heard_count = 0
        self.last_heard_at_ms: int | None = None
        self.gap_ms_max = -1
        """Below any gap while there is none."""
        self.gaps = [0] * (BEYOND + 1)

    # -- what is measured ----------------------------------------------------------------------------

    def heard(self, node_ms: int, wall_ms: int) -> None:
        """Take note of a sign of life. Whoever heartbeats comes here, so it costs a few additions."""
        began_ms = self.gap_began_ms
        if began_ms >= 0:
            gap_ms = node_ms - began_ms
            place = (gap_ms - 1).bit_length() if gap_ms > 1 else 0
            self.gaps[place if place < BEYOND else BEYOND] += 1  # noqa: FURB136 - every heartbeat: a call costs more
            if gap_ms > self.gap_ms_max:  # noqa: PLR1730 - as above
                self.gap_ms_max = gap_ms
        self.gap_began_ms = node_ms
        self.last_heard_at_ms = wall_ms
        self.heard_count += 1

    def session_began(self, node_ms: int, session_timeout_ms: int) -> None:
        """Take note that the session's timer was started, for whatever reason."""
        if self.gap_began_ms != NOT_HEARD:
            self.gap_began_ms = node_ms
            self.session_timeout_ms = session_timeout_ms

    def forget_gap(self, until: int = NOT_YET) -> None:
        """Measure no gap until the session's timer starts, or (NOT_HEARD) until the member is heard again."""
        self.gap_began_ms = until

    def join_phase_over(self) -> None:
        """Measure again: the member has a session from now on."""
        if self.gap_began_ms == NOT_HEARD:
            self.gap_began_ms = NOT_YET

    def give_back(self, length_ms: int, node_ms: int) -> None:
        """Take time in which nobody could be heard out of the gap under way."""
        if self.gap_began_ms >= 0:
            self.gap_began_ms = min(node_ms, self.gap_began_ms + length_ms)

    # -- what is told --------------------------------------------------------------------------------

    def told(
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
        """Return the stay as a row, up to a moment, and measure the next from there.

        After a take-over another node's clock tells of the moment; where that is behind, the row is of no length.
        """
        ended_at_ms = max(at_ms, self.told_until_ms)
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
            started_at_ms=self.told_until_ms,
            ended_at_ms=ended_at_ms,
            end_reason=end_reason,
            last_heartbeat_at_ms=self.last_heard_at_ms,
            heartbeat_count=self.heard_count,
            heartbeat_gap_ms_max=None if self.gap_ms_max < 0 else min(self.gap_ms_max, LONGEST_TOLD_MS),
            heartbeat_gap_histogram=tuple(self.gaps),
        )
        self._measure_from(ended_at_ms)
        return row
