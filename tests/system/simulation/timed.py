"""Check that every member, pending member id and phase that a group waits for has a timer.

A timer that was forgotten, or moved too far, would otherwise show only if a member became silent just then.
"""

from collections.abc import Iterator

from coordinator_core.protocol.requests import Deadline, DeadlineKind
from coordinator_core.protocol.states import COMPLETING, PREPARING
from coordinator_core.runtime.group_context import GroupContext
from coordinator_core.runtime.shard import Shard
from coordinator_core.runtime.timers import GroupTimer

LATE_MS = 3_000
"""What a timer may be late while the process runs and is sure of its lease."""
LONGEST_PHASE_MS = 35_000
LONGEST_SESSION_MS = 40_000
"""The longest limit of any client; for a new member, the longest session."""


STORM_MS = 35_000
"""What pauses and doubtful leases may have added, also for members that were heard meanwhile."""


def untimed(shard: Shard, group_context: GroupContext, ran_for_s: float, *, is_calm: bool) -> str | None:
    """Return what of a group would be waited for for ever, or for too long; None: nothing.

    Args:
        shard: the shard.
        group_context: the group in its shard.
        ran_for_s: for how long its process has run without a pause, in seconds.
        is_calm: whether pauses and doubts are long over.
    """
    given_ms = 0 if is_calm else STORM_MS
    now_ms = shard._clock.now().node_ms
    for deadline, longest_ms in _wanted(shard, group_context):
        due_ms = shard.timers.due_at_ms(GroupTimer(group_context.group.group_id, deadline))
        what = f"{deadline.kind} {deadline.subject}"
        if due_ms is None:
            return f"{what} has no timer"
        if due_ms > now_ms + longest_ms + given_ms:
            return f"{what} is due in {due_ms - now_ms} ms, and {longest_ms} ms are the most"
        if due_ms < now_ms - LATE_MS and shard.valid_until_ms > now_ms and ran_for_s > LATE_MS / 1000:
            return f"{what} was due {now_ms - due_ms} ms ago"
    return None


def _wanted(shard: Shard, group_context: GroupContext) -> Iterator[tuple[Deadline, int]]:
    """Yield every deadline that has to be armed, and how far off it may be."""
    group = group_context.group
    settings = shard._metadata_cache.context(group.group_id).settings
    for member in group.members.values():
        if member.is_new:
            yield Deadline(DeadlineKind.SESSION, member.member_id), LONGEST_SESSION_MS
        elif not group.is_waiting(member.member_id):
            # A deadline that was set with a longer timeout than today's remains.
            longest_ms = max(30_000, settings.effective_session_timeout_ms(member.session_timeout_ms))
            yield Deadline(DeadlineKind.SESSION, member.member_id), longest_ms
    for member_id in group.pending_member_ids:
        yield Deadline(DeadlineKind.PENDING_MEMBER, member_id), LONGEST_SESSION_MS
    if group.exists and group.state is PREPARING:
        yield Deadline(DeadlineKind.JOIN), LONGEST_PHASE_MS
    elif group.exists and (group.state is COMPLETING or group.pending_syncs):
        yield Deadline(DeadlineKind.SYNC), LONGEST_PHASE_MS
