"""Decoder of the records of `__consumer_offsets`: the key and value of one record become what it says.

The first two bytes of a key are the type of the record, of a value its version. The client libraries do not have these
schemas, which are internal to Kafka's coordinator.

Rules:

* A type that is not known here is a value, `UnknownRecord`, as new releases add types that a mirror can do without.
* Whatever else cannot be decoded or stored raises `UndecodableRecord`, and nothing else is ever raised.
* Fields after the last one that is needed are not read.

Source: the schemas and `CoordinatorRecordType` of Kafka's module group-coordinator, 4.3.1, and 4.1.1, which has fewer
tagged fields.
"""

import struct
from collections.abc import Callable
from functools import lru_cache
from typing import Final, NamedTuple

from mirror.group_records import (
    CurrentAssignment,
    GroupEpoch,
    GroupRecord,
    GroupType,
    MemberSubscription,
    Reconciliation,
    ResolvedRegex,
    Subscription,
    TargetAssignment,
    TargetAssignmentEpoch,
    TopicIdPartitions,
)
from mirror.observed import GroupDeleted, Observed, ObservedCommit, ObservedGroup, ObservedMember, OffsetDeleted
from mirror.record_reader import TERMINATOR, RecordReader, UndecodableRecord, to_text

LATEST_TIME_MS: Final = 253_402_300_799_999
"""The end of the year 9999, the last that a Python datetime holds."""
REMEMBERED: Final = 16_384
"""A member commits the same partitions again and again, so as many pairs of a group and a topic are remembered."""
STABLE: Final = {GroupType.CONSUMER: 0, GroupType.SHARE: 0, GroupType.STREAMS: 1}
"""The number of a member's state Stable; Kafka has a `MemberState` for streams groups alone."""

_OFFSET_COMMIT_TYPES: Final = frozenset([b"\0\0", b"\0\1"])
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")
_OFFSET_AND_LENGTH: Final = struct.Struct(">hqh")
"""Version, offset, length of the metadata: how values of versions 0 to 2 of an offset commit begin."""
_OFFSET_EPOCH_AND_LENGTH: Final = struct.Struct(">hqih")
"""Version, offset, leader epoch, length of the metadata: version 3."""
_OFFSET_AND_EPOCH: Final = struct.Struct(">hqi")
"""Version, offset, leader epoch: version 4, in which a compact length follows."""


class UnknownRecord(NamedTuple):
    """A record of a type that is not known here."""

    record_type: int


Decoded = Observed | GroupRecord | UnknownRecord


def decode(key: bytes | None, value: bytes | None) -> Decoded | None:
    """Decode a record of the topic.

    Args:
        key: its key.
        value: its value; None: what the key names was deleted.

    Returns:
        What it says; None if its type is known and says nothing that a mirror needs.

    Raises:
        UndecodableRecord: count it, report it, and go on with the next record.
    """
    if key is None:
        raise UndecodableRecord("there is no key")
    try:
        (record_type,) = _INT16.unpack_from(key)
        if record_type == 1 or record_type == 0:  # noqa: PLR1714 - this is asked a million times, and a tuple takes longer
            return _offset_commit(key, value)
        if record_type not in _DECODERS:
            return UnknownRecord(record_type)
        decoder = _DECODERS[record_type]
        return None if decoder is None else decoder(RecordReader(key, _INT16.size), value)
    except struct.error as error:
        raise UndecodableRecord(f"the record is too short: {error}") from None


def is_offset_commit(key: bytes | None) -> bool:
    """Return whether a record is an offset commit or its tombstone, by the first two bytes of its key."""
    return key is not None and key[:2] in _OFFSET_COMMIT_TYPES


# -- offset commits --------------------------------------------------------------------------------------------


def _offset_commit(key: bytes, value: bytes | None) -> ObservedCommit | OffsetDeleted:
    group_id, topic = _group_and_topic(key[:-4])
    (partition,) = _INT32.unpack_from(key, len(key) - 4)
    if partition < 0:
        raise UndecodableRecord(f"partition {partition}")
    if value is None:
        return OffsetDeleted(group_id, topic, partition)
    expires_at_ms = -1
    (version,) = _INT16.unpack_from(value)
    if version == 3:
        _, offset, leader_epoch, length = _OFFSET_EPOCH_AND_LENGTH.unpack_from(value)
        start = _OFFSET_EPOCH_AND_LENGTH.size
    elif version == 4:
        _, offset, leader_epoch = _OFFSET_AND_EPOCH.unpack_from(value)
        start, length = _compact_length(value, _OFFSET_AND_EPOCH.size)
    elif 0 <= version <= 2:
        _, offset, length = _OFFSET_AND_LENGTH.unpack_from(value)
        start = _OFFSET_AND_LENGTH.size
        leader_epoch = -1
    else:
        raise UndecodableRecord(f"an offset commit of version {version}")
    if length < 0:
        raise UndecodableRecord("the metadata of an offset commit are null")
    (committed_at_ms,) = _INT64.unpack_from(value, start + length)
    if version == 1:
        (expires_at_ms,) = _INT64.unpack_from(value, start + length + 8)
    elif version == 4 and not _has_only_topic_id(value[start + length + 8 :]):
        RecordReader(value, start + length + 8, is_flexible=True).skip_tagged_fields()
    if offset < 0:  # Brokers store what clients send; fetched, it means that there is no committed offset.
        return OffsetDeleted(group_id, topic, partition)
    if leader_epoch < -1 or not 0 <= committed_at_ms <= LATEST_TIME_MS:
        raise UndecodableRecord(f"an offset of leader epoch {leader_epoch}, committed at {committed_at_ms} ms")
    return ObservedCommit(
        group_id,
        topic,
        partition,
        offset,
        leader_epoch,
        to_text(value[start : start + length].removesuffix(TERMINATOR)) if length else "",
        committed_at_ms,
        None if expires_at_ms == -1 else min(max(expires_at_ms, 0), LATEST_TIME_MS),
    )


@lru_cache(REMEMBERED)
def _group_and_topic(key: bytes) -> tuple[str, str]:
    """Return the group and the topic of the key of an offset commit without its partition."""
    reader = RecordReader(key, _INT16.size)
    names = reader.name(), reader.name()
    reader.end()
    return names


def _has_only_topic_id(tagged_fields: bytes) -> bool:
    """Return whether the tagged fields of an offset commit are as Kafka writes them: none, or the id of the topic."""
    return tagged_fields == b"\0" or (len(tagged_fields) == 19 and tagged_fields.startswith(b"\1\0\x10"))


def _compact_length(value: bytes, start: int) -> tuple[int, int]:
    """Return where compact text begins, and its length in bytes, -1 for null."""
    if len(value) > start and value[start] < 0x80:
        return start + 1, value[start] - 1
    reader = RecordReader(value, start, is_flexible=True)
    length = reader.length()
    return reader.position, length


# -- groups of the classic protocol ----------------------------------------------------------------------------


def _group_metadata(key: RecordReader, value: bytes | None) -> ObservedGroup | GroupDeleted:
    group_id = key.name()
    if value is None:
        return GroupDeleted(group_id)
    version, reader = _value_reader(value, newest=4, flexible_since=4)
    protocol_type = reader.text()
    generation = reader.int32()
    protocol_name = reader.nullable_text()
    leader_id = reader.nullable_text()
    state_since_ms = reader.int64() if version >= 2 else -1
    members = reader.items(lambda: _classic_member(reader, version))
    reader.skip_tagged_fields()
    if generation < 0:
        raise UndecodableRecord(f"generation {generation}")
    since_ms = None if state_since_ms == -1 else _time(state_since_ms)
    return ObservedGroup(group_id, protocol_type, generation, protocol_name, leader_id, since_ms, members)


def _classic_member(reader: RecordReader, version: int) -> ObservedMember:
    member_id = reader.name()
    group_instance_id = reader.nullable_text() if version >= 3 else None
    client_id, client_host = reader.text(), reader.text()
    rebalance_timeout_ms = reader.int32() if version >= 1 else -1
    session_timeout_ms = reader.int32()
    subscription, assignment = reader.data(), reader.data()
    reader.skip_tagged_fields()
    if session_timeout_ms <= 0:
        raise UndecodableRecord(f"a session timeout of {session_timeout_ms} ms")
    return ObservedMember(
        member_id,
        group_instance_id,
        client_id,
        client_host,
        session_timeout_ms,
        session_timeout_ms if rebalance_timeout_ms < 0 else rebalance_timeout_ms,
        subscription,
        assignment,
    )


# -- groups of the other protocols -----------------------------------------------------------------------------

_Decoder = Callable[[RecordReader, bytes | None], Decoded]


def _group_epoch(group_type: GroupType) -> _Decoder:
    def decode_value(key: RecordReader, value: bytes | None) -> GroupEpoch:
        group_id = key.name()
        if value is None:
            return GroupEpoch(group_type, group_id, None)
        _, reader = _value_reader(value)
        return GroupEpoch(group_type, group_id, _epoch(reader))

    return decode_value


def _target_assignment_epoch(group_type: GroupType) -> _Decoder:
    def decode_value(key: RecordReader, value: bytes | None) -> TargetAssignmentEpoch:
        group_id = key.name()
        if value is None:
            return TargetAssignmentEpoch(group_type, group_id, None, None)
        _, reader = _value_reader(value)
        epoch = _epoch(reader)
        computed_at = reader.tagged_field(0)
        computed_at_ms = 0 if computed_at is None else _time(computed_at.int64())
        return TargetAssignmentEpoch(group_type, group_id, epoch, computed_at_ms or None)

    return decode_value


def _member_subscription(group_type: GroupType, read: Callable[[RecordReader], Subscription]) -> _Decoder:
    def decode_value(key: RecordReader, value: bytes | None) -> MemberSubscription:
        group_id, member_id = key.name(), key.name()
        if value is None:
            return MemberSubscription(group_type, group_id, member_id, None)
        _, reader = _value_reader(value)
        return MemberSubscription(group_type, group_id, member_id, read(reader))

    return decode_value


def _consumer_subscription(reader: RecordReader) -> Subscription:
    group_instance_id, _rack_id = reader.nullable_text(), reader.nullable_text()
    client_id, client_host = reader.text(), reader.text()
    topics, topic_regex = reader.items(reader.text), reader.nullable_text()
    rebalance_timeout_ms = reader.int32()
    server_assignor = reader.nullable_text()
    classic = reader.tagged_field(0)
    session_timeout_ms = None
    if (
        classic is not None and classic.int8() > 0
    ):  # In a tagged field, null is written as a structure that begins with 0.
        session_timeout_ms = classic.int32()
        if session_timeout_ms <= 0:
            raise UndecodableRecord(f"a session timeout of {session_timeout_ms} ms")
    return Subscription(
        group_instance_id,
        client_id,
        client_host,
        None if rebalance_timeout_ms < 0 else rebalance_timeout_ms,
        topics,
        topic_regex,
        server_assignor,
        session_timeout_ms,
    )


def _share_subscription(reader: RecordReader) -> Subscription:
    _rack_id = reader.nullable_text()
    client_id, client_host = reader.text(), reader.text()
    topics = reader.items(reader.text)
    return Subscription(None, client_id, client_host, None, topics, None, None, None)


def _streams_subscription(reader: RecordReader) -> Subscription:
    """Read what is of use; the topics of a member are those of the group's topology."""
    group_instance_id, _rack_id = reader.nullable_text(), reader.nullable_text()
    client_id, client_host = reader.text(), reader.text()
    rebalance_timeout_ms = reader.int32()
    timeout_ms = None if rebalance_timeout_ms < 0 else rebalance_timeout_ms
    return Subscription(group_instance_id, client_id, client_host, timeout_ms, (), None, None, None)


def _target_assignment(key: RecordReader, value: bytes | None) -> TargetAssignment:
    group_id, member_id = key.name(), key.name()
    if value is None:
        return TargetAssignment(group_id, member_id, None)
    _, reader = _value_reader(value)
    return TargetAssignment(group_id, member_id, _partitions(reader))


def _current_assignment(group_type: GroupType) -> _Decoder:
    def decode_value(key: RecordReader, value: bytes | None) -> CurrentAssignment:
        group_id, member_id = key.name(), key.name()
        if value is None:
            return CurrentAssignment(group_type, group_id, member_id, None)
        _, reader = _value_reader(value)
        epoch, _previous_epoch, state = reader.int32(), reader.int32(), reader.int8()
        has_topics = group_type is GroupType.CONSUMER
        assigned = _partitions(reader) if has_topics else ()
        pending = _partitions(reader) if has_topics else ()
        reached = Reconciliation(epoch, state == STABLE[group_type], assigned, pending)
        return CurrentAssignment(group_type, group_id, member_id, reached)

    return decode_value


def _partitions(reader: RecordReader) -> tuple[TopicIdPartitions, ...]:
    def one_topic() -> TopicIdPartitions:
        topic = TopicIdPartitions(reader.uuid(), reader.items(reader.int32))
        reader.skip_tagged_fields()
        return topic

    return reader.items(one_topic)


def _resolved_regex(key: RecordReader, value: bytes | None) -> ResolvedRegex:
    group_id, regex = key.name(), key.text()
    if value is None:
        return ResolvedRegex(group_id, regex, None)
    _, reader = _value_reader(value)
    return ResolvedRegex(group_id, regex, reader.items(reader.text))


_DECODERS: Final[dict[int, _Decoder | None]] = {
    2: _group_metadata,
    3: _group_epoch(GroupType.CONSUMER),
    4: None,  # Partitions of subscribed topics, until Kafka 4.0; only deleted since.
    5: _member_subscription(GroupType.CONSUMER, _consumer_subscription),
    6: _target_assignment_epoch(GroupType.CONSUMER),
    7: _target_assignment,
    8: _current_assignment(GroupType.CONSUMER),
    9: None,  # Partitions of the subscribed topics of a share group, until Kafka 4.0.
    10: _member_subscription(GroupType.SHARE, _share_subscription),
    11: _group_epoch(GroupType.SHARE),
    12: _target_assignment_epoch(GroupType.SHARE),
    13: None,  # Target assignment of a share group's member.
    14: _current_assignment(GroupType.SHARE),
    15: None,  # Partitions of a share group whose state is initialized or to be deleted.
    16: _resolved_regex,
    17: _group_epoch(GroupType.STREAMS),
    18: None,  # Partitions of a streams group's topics, in previews of Kafka 4.1.
    19: _member_subscription(GroupType.STREAMS, _streams_subscription),
    20: _target_assignment_epoch(GroupType.STREAMS),
    21: None,  # Target assignment of a streams group's member.
    22: _current_assignment(GroupType.STREAMS),
    23: None,  # The topology of a streams group.
}
"""Decoder of a key after its type, and of the value, by type; None: the record is not needed."""


# -- values ----------------------------------------------------------------------------------------------------


def _value_reader(value: bytes, newest: int = 0, flexible_since: int = 0) -> tuple[int, RecordReader]:
    """Return a value's version and a reader of what follows.

    Raises:
        UndecodableRecord: the version is not known.
    """
    (version,) = _INT16.unpack_from(value)
    if not 0 <= version <= newest:
        raise UndecodableRecord(f"a value of version {version}, {newest} is the newest known")
    return version, RecordReader(value, _INT16.size, is_flexible=version >= flexible_since)


def _epoch(reader: RecordReader) -> int:
    epoch = reader.int32()
    if epoch < 0:
        raise UndecodableRecord(f"epoch {epoch}")
    return epoch


def _time(at_ms: int) -> int:
    if not 0 <= at_ms <= LATEST_TIME_MS:
        raise UndecodableRecord(f"{at_ms} is no time in milliseconds")
    return at_ms
