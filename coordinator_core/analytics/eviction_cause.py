"""Cause of an eviction: the member was silent, or it was alive and late for a rebalance.

A group evicts a member when its session expires, or at the end of a join or sync phase that it missed. In the second
case heartbeats are the evidence: a client sends them in the background while its application works, so a member that
heartbeated to the end was alive. Either the rebalance timeout was too short, or it processes too long between polls.

Heartbeats continued if the silence before the eviction is at most `MISSED_HEARTBEATS` times the longest gap between
two of the member's heartbeats, or, where no gap was measured, a third of its session timeout, which is the longest
heartbeat interval that Kafka recommends. A silence longer than the session timeout is always one.
"""

from enum import StrEnum
from typing import Final

from coordinator_core.protocol.records import RemovalReason

MISSED_HEARTBEATS: Final = 2
HEARTBEATS_A_SESSION: Final = 3


class EvictionCause(StrEnum):
    """Why a member was evicted."""

    SILENT = "silent"
    """It sent no heartbeat: its process was dead, hung or paused."""
    LATE_JOIN = "late_join"
    """It heartbeated, and did not join within the rebalance timeout."""
    LATE_SYNC = "late_sync"
    """It heartbeated, and did not sync within the rebalance timeout."""


PHASES: Final = {
    RemovalReason.REBALANCE_TIMEOUT: EvictionCause.LATE_JOIN,
    RemovalReason.SYNC_TIMEOUT: EvictionCause.LATE_SYNC,
}


def eviction_cause(
    end_reason: str, silent_ms: int, heartbeat_gap_ms_max: int | None, session_timeout_ms: int
) -> EvictionCause | None:
    """Return why a member was evicted; None if its session ended otherwise.

    Args:
        end_reason: why its session ended, as in `member_sessions`.
        silent_ms: from its last heartbeat to the end.
        heartbeat_gap_ms_max: the longest gap between two heartbeats; None: none was measured.
        session_timeout_ms: the effective session timeout.
    """
    if end_reason == RemovalReason.SESSION_EXPIRED:
        return EvictionCause.SILENT
    late = PHASES.get(end_reason)  # type: ignore[call-overload]  # a removal equals its text
    if late is None:
        return None
    if heartbeat_gap_ms_max is None:
        allowed_ms = session_timeout_ms // HEARTBEATS_A_SESSION
    else:
        allowed_ms = min(MISSED_HEARTBEATS * heartbeat_gap_ms_max, session_timeout_ms)
    return late if silent_ms <= allowed_ms else EvictionCause.SILENT
