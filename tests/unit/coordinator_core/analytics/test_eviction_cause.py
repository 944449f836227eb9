"""The last heartbeat distinguishes evicted members that were silent from those that were alive and late."""

import pytest

from coordinator_core.analytics.eviction_cause import EvictionCause, eviction_cause

SESSION_MS = 45_000
LATE_JOIN, LATE_SYNC, SILENT = EvictionCause.LATE_JOIN, EvictionCause.LATE_SYNC, EvictionCause.SILENT


@pytest.mark.parametrize(
    ("end_reason", "silent_ms", "gap_ms_max", "cause"),
    [
        ("session_expired", 45_000, 3_000, SILENT),
        ("rebalance_timeout", 2_900, 3_000, LATE_JOIN),
        ("rebalance_timeout", 6_000, 3_000, LATE_JOIN),
        ("rebalance_timeout", 6_001, 3_000, SILENT),
        ("rebalance_timeout", 45_001, 40_000, SILENT),
        ("rebalance_timeout", 15_000, None, LATE_JOIN),
        ("rebalance_timeout", 15_001, None, SILENT),
        ("sync_timeout", 3_000, 3_000, LATE_SYNC),
        ("sync_timeout", 30_000, 3_000, SILENT),
        ("new_member_timeout", 300_000, None, None),
        ("left", 0, 3_000, None),
        ("admin", 0, 3_000, None),
        ("replaced", 0, 3_000, None),
        ("hour", 0, 3_000, None),
    ],
)
def test_last_heartbeat_distinguishes_late_from_silent_members(
    end_reason: str, silent_ms: int, gap_ms_max: int | None, cause: EvictionCause | None
) -> None:
    assert eviction_cause(end_reason, silent_ms, gap_ms_max, SESSION_MS) is cause
