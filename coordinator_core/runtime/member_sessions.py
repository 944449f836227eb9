"""Measure the gaps between heartbeats of members, and write one row per session and hour.

Rules:

* Measuring costs a heartbeat a few additions and no write. The end of a session is written with the record that ended
  it. The interval of a session that goes on is background work: a limited number of rows per scan, and none while the
  writer has a backlog.
* A crash loses the measurements of the current interval, not the session: the next row says since when it measured,
  and when the member joined.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final, Protocol

from coordinator_core.protocol.requests import CommitOffsets, Heartbeat, JoinGroup, SyncGroup
from coordinator_core.protocol.settings import Now
from coordinator_core.state_store.member_sessions import MemberSession

SESSION_ACTIVITY: Final = (Heartbeat, CommitOffsets, SyncGroup, JoinGroup)
"""Requests that keep their member's session alive, unless they are refused."""

NO_DEADLINE_MS: Final = 2**63 - 1
"""Later than any node time."""
SCAN_INTERVAL_S: Final = 10
"""How often the loop looks for sessions whose interval has ended."""
MAX_ROWS_PER_SCAN: Final = 2_000
"""Rows that one scan may queue: with a scan every ten seconds, enough for 700,000 members."""
MAX_ROWS_PER_WRITE: Final = 500
"""Rows of one group in one transaction; the rest of a large group follows with the next scan."""


def record_activity(session: MemberSession | None, now: Now, stalled_after_ms: int) -> None:
    """Record a member's request; after a pause of the event loop its arrival time is unknown, so it ends no gap."""
    if session is None:
        return
    if now.node_ms > stalled_after_ms:
        session.discard_gap()
    session.record_activity(now.node_ms, now.wall_ms)


class SessionShard(Protocol):
    """The part of a shard that this loop needs."""

    def store_session_intervals(self, limit: int) -> int:
        """Queue a row for each session whose interval has ended, at most `limit`; return how many."""
        ...


class SessionIntervalsLoop:
    """The loop that writes session intervals."""

    def __init__(self, shards: Callable[[], Iterable[SessionShard]], is_behind: Callable[[], bool]) -> None:
        """Create the loop; `run` starts it.

        Args:
            shards: returns the shards that the node owns.
            is_behind: returns whether the writer has a backlog, so that background work waits.
        """
        self._shards = shards
        self._is_behind = is_behind

    async def run(self) -> None:
        """Scan every ten seconds, without end."""
        while True:
            await asyncio.sleep(SCAN_INTERVAL_S)
            await self.scan()

    async def scan(self) -> None:
        """Queue due rows, up to the limits; yields to the event loop after every shard."""
        remaining = MAX_ROWS_PER_SCAN
        for shard in list(self._shards()):
            if remaining <= 0 or self._is_behind():
                return
            remaining -= shard.store_session_intervals(remaining)
            await asyncio.sleep(0)
