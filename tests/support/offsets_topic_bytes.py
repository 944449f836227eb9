"""Encoder of records of `__consumer_offsets`, as far as tests write some themselves.

It is written from the schemas, apart from the decoder; what Kafka itself wrote is in `tests/data/offsets_topic`.
"""

import struct
from collections.abc import Iterable, Sequence

from mirror.observed import ObservedCommit, ObservedGroup, ObservedMember


def offset_commit_key(group_id: str, topic: str, partition: int, record_type: int = 1) -> bytes:
    return _int16(record_type) + classic(group_id) + classic(topic) + struct.pack(">i", partition)


def offset_commit_value(commit: ObservedCommit, version: int = 3, tagged_fields: bytes = b"\0") -> bytes:
    epoch = struct.pack(">i", commit.leader_epoch) if version >= 3 else b""
    metadata = compact(commit.metadata) if version >= 4 else classic(commit.metadata)
    expires_at_ms = -1 if commit.expires_at_ms is None else commit.expires_at_ms
    expiry = _int64(expires_at_ms) if version == 1 else b""
    end = tagged_fields if version >= 4 else b""
    return b"".join(
        [_int16(version), _int64(commit.offset), epoch, metadata, _int64(commit.committed_at_ms), expiry, end]
    )


def group_key(record_type: int, *names: str) -> bytes:
    return _int16(record_type) + b"".join(map(classic, names))


def group_metadata_value(group: ObservedGroup, version: int = 3) -> bytes:
    is_flexible = version >= 4
    text = compact if is_flexible else classic
    since_ms = -1 if group.state_since_ms is None else group.state_since_ms
    parts = [_int16(version), text(group.protocol_type), struct.pack(">i", group.generation)]
    parts += [text(group.protocol_name), text(group.leader_id)]
    parts += [_int64(since_ms)] if version >= 2 else []
    parts += [_length(len(group.members), is_flexible=is_flexible)]
    parts += [_classic_member(member, version) for member in group.members]
    return b"".join([*parts, b"\0" if is_flexible else b""])


def flexible_value(*fields: bytes, tagged_fields: Iterable[tuple[int, bytes]] = (), version: int = 0) -> bytes:
    return b"".join([_int16(version), *fields, tags(tagged_fields)])


def tags(fields: Iterable[tuple[int, bytes]] = ()) -> bytes:
    numbered = list(fields)
    encoded = [varint(tag) + varint(len(content)) + content for tag, content in numbered]
    return varint(len(numbered)) + b"".join(encoded)


def array(items: Sequence[bytes]) -> bytes:
    return varint(len(items) + 1) + b"".join(items)


def classic(text: str | None) -> bytes:
    if text is None:
        return _int16(-1)
    encoded = text.encode()
    return _int16(len(encoded)) + encoded


def compact(text: str | None) -> bytes:
    if text is None:
        return b"\0"
    encoded = text.encode()
    return varint(len(encoded) + 1) + encoded


def varint(value: int) -> bytes:
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])


def _classic_member(member: ObservedMember, version: int) -> bytes:
    is_flexible = version >= 4
    text = compact if is_flexible else classic
    parts = [text(member.member_id)]
    parts += [text(member.group_instance_id)] if version >= 3 else []
    parts += [text(member.client_id), text(member.client_host)]
    parts += [struct.pack(">i", member.rebalance_timeout_ms)] if version >= 1 else []
    parts += [struct.pack(">i", member.session_timeout_ms)]
    for content in (member.subscription, member.assignment):
        parts += [_length(len(content), is_flexible=is_flexible), content]
    return b"".join([*parts, b"\0" if is_flexible else b""])


def _length(length: int, *, is_flexible: bool) -> bytes:
    return varint(length + 1) if is_flexible else struct.pack(">i", length)


def _int16(value: int) -> bytes:
    return struct.pack(">h", value)


def _int64(value: int) -> bytes:
    return struct.pack(">q", value)
