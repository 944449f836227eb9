"""Whatever a group waits for has a timer that ends it in time: members, handshake ids, phases.

A timer that was forgotten, or moved too far, is otherwise seen only if somebody falls silent just then.
"""

from collections.abc import Iterator

from coordinator_core.protocol.requests import Deadline, DeadlineKind
from coordinator_core.protocol.states import COMPLETING, PREPARING
from coordinator_core.runtime.hosting import Hosted
from coordinator_core.runtime.shard import Shard
from coordinator_core.runtime.timers import Armed

LATE_MS = 3_000
"""What a timer may be late while the process runs and is sure of its lease."""
LONGEST_PHASE_MS = 35_000
LONGEST_SESSION_MS = 40_000
"""No limit that anybody asks for is longer; a newcomer's own is the longest session."""


STORM_MS = 35_000
"""What pauses and doubts may have added: whoever was heard in between has been given them all the same."""


def untimed(shard: Shard, hosted: Hosted, ran_for_s: float, *, is_calm: bool) -> str | None:
    """Return what of a group would be waited for for ever, or for too long; None: nothing.

    Args:
        shard: the shard.
        hosted: its group.
        ran_for_s: for how long its process has run without a pause, in seconds.
        is_calm: whether pauses and doubts are long over.
    """
    given_ms = 0 if is_calm else STORM_MS
    now_ms = shard._clock.now().node_ms
    for deadline, longest_ms in _wanted(shard, hosted):
        due_ms = shard.timers.due_at_ms(Armed(hosted.group.group_id, deadline))
        what = f"{deadline.kind} {deadline.subject}"
        if due_ms is None:
            return f"{what} has no timer"
        if due_ms > now_ms + longest_ms + given_ms:
            return f"{what} is due in {due_ms - now_ms} ms, and {longest_ms} ms are the most"
        if due_ms < now_ms - LATE_MS and shard.valid_until_ms > now_ms and ran_for_s > LATE_MS / 1000:
            return f"{what} was due {now_ms - due_ms} ms ago"
    return None


def _wanted(shard: Shard, hosted: Hosted) -> Iterator[tuple[Deadline, int]]:
    """Yield every deadline that has to be armed, and how far off it may be."""
    group = hosted.group
    settings = shard._surroundings.context(group.group_id).settings
    for member in group.members.values():
        if member.is_new:
            yield Deadline(DeadlineKind.MEMBER, member.member_id), LONGEST_SESSION_MS
        elif not group.is_waiting(member.member_id):
            # Whoever was heard under a longer timeout than there is now keeps what that gave it.
            longest_ms = max(30_000, settings.session_in_force_ms(member.session_timeout_ms))
            yield Deadline(DeadlineKind.MEMBER, member.member_id), longest_ms
    for member_id in group.pending_member_ids:
        yield Deadline(DeadlineKind.HANDSHAKE, member_id), LONGEST_SESSION_MS
    if group.exists and group.state is PREPARING:
        yield Deadline(DeadlineKind.JOIN), LONGEST_PHASE_MS
    elif group.exists and (group.state is COMPLETING or group.pending_syncs):
        yield Deadline(DeadlineKind.SYNC), LONGEST_PHASE_MS
