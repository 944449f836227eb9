"""Measure the gaps between heartbeats of members, and write one row per session and hour.

Rules:

* Measuring costs a heartbeat a few additions and no write. The end of a session is written with the record that ended
  it. The interval of a session that goes on is background work (shard_scan.py).
* A crash loses the measurements of the current interval, not the session: the next row says since when it measured,
  and when the member joined.
"""

from typing import Final

from coordinator_core.protocol.requests import CommitOffsets, Heartbeat, JoinGroup, SyncGroup
from coordinator_core.protocol.settings import Now
from coordinator_core.state_store.member_sessions import MemberSession

SESSION_ACTIVITY: Final = (Heartbeat, CommitOffsets, SyncGroup, JoinGroup)
"""Requests that keep their member's session alive, unless they are refused."""

NO_DEADLINE_MS: Final = 2**63 - 1
"""Later than any node time."""
MAX_ROWS_PER_WRITE: Final = 500
"""Rows of one group in one transaction; the rest of a large group follows with the next scan."""


def record_activity(session: MemberSession | None, now: Now, stalled_after_ms: int) -> None:
    """Record a member's request; after a pause of the event loop its arrival time is unknown, so it ends no gap."""
    if session is None:
        return
    if now.node_ms > stalled_after_ms:
        session.discard_gap()
    session.record_activity(now.node_ms, now.wall_ms)
