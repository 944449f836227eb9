"""Records of `__consumer_offsets` as a broker writes them: GroupMetadataValue 3 and OffsetCommitValue 3.

Source: Kafka's schemas of those names; strings have an int16 length, bytes an int32 one, -1 is null.
"""

import struct
from dataclasses import dataclass

from mirror.observed import GroupDeleted, Observed, ObservedCommit, ObservedGroup, ObservedMember, OffsetDeleted

COMMIT_KEY, GROUP_KEY = 1, 2
VALUE_VERSION = 3


@dataclass(frozen=True, slots=True)
class LogRecord:
    """A record as a reader returns it."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None


def record(offset: int, at_ms: int, seen: Observed) -> LogRecord:
    """Return the record that says this."""
    return LogRecord(offset, at_ms, _key(seen), _value(seen))


def _key(seen: Observed) -> bytes:
    if isinstance(seen, ObservedCommit | OffsetDeleted):
        names = _string(seen.group_id) + _string(seen.topic)
        return struct.pack(">h", COMMIT_KEY) + names + struct.pack(">i", seen.partition)
    return struct.pack(">h", GROUP_KEY) + _string(seen.group_id)


def _value(seen: Observed) -> bytes | None:
    match seen:
        case GroupDeleted() | OffsetDeleted():
            return None
        case ObservedCommit():
            numbers = struct.pack(">hqi", VALUE_VERSION, seen.offset, seen.leader_epoch)
            return numbers + _string(seen.metadata) + struct.pack(">q", seen.committed_at_ms)
        case ObservedGroup():
            names = _string(seen.protocol_type) + struct.pack(">i", seen.generation)
            names += _string(seen.protocol_name) + _string(seen.leader_id)
            since_ms = -1 if seen.state_since_ms is None else seen.state_since_ms
            counts = struct.pack(">qi", since_ms, len(seen.members))
            return struct.pack(">h", VALUE_VERSION) + names + counts + b"".join(map(_member, seen.members))


def _member(member: ObservedMember) -> bytes:
    names = (member.member_id, member.group_instance_id, member.client_id, member.client_host)
    timeouts = struct.pack(">ii", member.rebalance_timeout_ms, member.session_timeout_ms)
    return b"".join(map(_string, names)) + timeouts + _bytes(member.subscription) + _bytes(member.assignment)


def _string(text: str | None) -> bytes:
    return struct.pack(">h", -1) if text is None else struct.pack(">h", len(text.encode())) + text.encode()


def _bytes(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data
