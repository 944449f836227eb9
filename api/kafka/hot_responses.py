"""Responses of the requests that consumers repeat, encoded by hand: kio needs ten to thirty times as long for them.

Each function returns the body of a response, in every version that is offered. A property test holds them equal to
kio's. Strings and arrays have a length before them: two and four bytes, or, in flexible versions, a varint of the
length and 1; null is -1, or 0.
"""

import struct
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import starmap
from typing import Final, NamedTuple
from uuid import UUID

from api.kafka.apis import APIS, NO_TAGS, ApiKey
from coordinator_core.protocol.responses import JoinGroupResponseMember

_INT16: Final = struct.Struct(">h").pack
_INT32: Final = struct.Struct(">i").pack
_COMMITTED: Final = struct.Struct(">iq").pack
_END: Final = struct.Struct(">ihqq").pack
_LED: Final = struct.Struct(">2xii").pack
"""A partition and its leader, without an error."""
_LED_WITH_EPOCH: Final = struct.Struct(">2xii4x").pack
NO_THROTTLE: Final = bytes(4)
NO_OFFSET: Final = b"\xff" * 8
NO_REPLICA: Final = b"\xff" * 4
NO_ID: Final = bytes(16)
IS_NOT_INTERNAL: Final = b"\x00"
OPERATIONS_UNKNOWN: Final = -(2**31)
"""The authorized operations, where the client has not asked for them."""

PartitionError = tuple[int, int]
"""A partition and its error code."""
StoredTopic = tuple[str, tuple[int, ...]]
"""A topic and its partitions whose offsets are stored."""
TopicErrors = tuple[str, Sequence[PartitionError]]
FetchedPartition = tuple[int, int, int, str, int]
"""A partition, its committed offset (-1: none), its leader epoch, its metadata and its error code."""
FetchedTopic = tuple[str, Sequence[FetchedPartition]]
PartitionEnd = tuple[int, int, int]
"""A partition, its error code, and where its log ends."""
FetchedGroup = tuple[str, Sequence[FetchedTopic], int]
"""A group, its committed offsets and its error code."""


BrokerAddress = tuple[int, str, int]
"""The id of a broker, its host and its port."""


class DescribedTopic(NamedTuple):
    """A topic in Metadata."""

    name: str | None
    topic_id: UUID | None
    error_code: int = 0
    authorized_operations: int = OPERATIONS_UNKNOWN
    leaders: Sequence[int] = ()
    """The broker that leads each partition, and has its only replica."""


class _Encoder:
    """Lengths as a version has them."""

    __slots__ = ("_partition_error", "_stored_partition", "is_flexible", "null_list", "tags")

    def __init__(self, *, is_flexible: bool) -> None:
        self.is_flexible = is_flexible
        self._partition_error = struct.Struct(">ihx" if is_flexible else ">ih").pack
        self._stored_partition = "ixxx" if is_flexible else "ixx"
        self.tags = NO_TAGS if is_flexible else b""
        self.null_list = b"\x00" if is_flexible else b"\xff\xff\xff\xff"

    def string(self, text: str | None) -> bytes:
        """Return a string, or null."""
        if text is None:
            return b"\x00" if self.is_flexible else b"\xff\xff"
        data = text.encode()
        return (_varint(len(data) + 1) if self.is_flexible else _INT16(len(data))) + data

    def data(self, data: bytes) -> bytes:
        """Return bytes with their length."""
        return self.length(len(data)) + data

    def partition_errors(self, errors: Iterable[PartitionError]) -> list[bytes]:
        """Return partitions with their error codes."""
        return list(starmap(self._partition_error, errors))

    def stored_partitions(self, partitions: Sequence[int]) -> bytes:
        """Return a list of partitions with the error code 0."""
        return self.length(len(partitions)) + struct.pack(f">{self._stored_partition * len(partitions)}", *partitions)

    def length(self, length: int) -> bytes:
        """Return the length of a list or of bytes."""
        return _varint(length + 1) if self.is_flexible else _INT32(length)

    def array(self, items: Sequence[bytes]) -> bytes:
        """Return encoded items with their number."""
        return self.length(len(items)) + b"".join(items)


_FIXED: Final = _Encoder(is_flexible=False)
_FLEXIBLE: Final = _Encoder(is_flexible=True)


def _encoder(key: ApiKey, version: int) -> _Encoder:
    return _FLEXIBLE if version >= APIS[key].flexible_from else _FIXED


def _varint(value: int) -> bytes:
    if value < 0x80:  # fits into one byte
        return value.to_bytes()
    parts = bytearray()
    while value >= 0x80:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)


def join_group(  # noqa: PLR0913  # the fields of the response
    version: int,
    error_code: int,
    member_id: str,
    *,
    generation: int = -1,
    protocol_type: str | None = None,
    protocol_name: str | None = None,
    leader: str = "",
    skip_assignment: bool = False,
    members: Sequence[JoinGroupResponseMember] = (),
) -> bytes:
    """Return the response of JoinGroup; without a protocol, versions below 7 have an empty name."""
    to = _encoder(ApiKey.JOIN_GROUP, version)
    return b"".join(
        (
            NO_THROTTLE if version >= 2 else b"",
            _INT16(error_code),
            _INT32(generation),
            to.string(protocol_type) if version >= 7 else b"",
            to.string(protocol_name if version >= 7 else protocol_name or ""),
            to.string(leader),
            bytes((skip_assignment,)) if version >= 9 else b"",
            to.string(member_id),
            to.array([_joined_member(to, version, each) for each in members]),
            to.tags,
        )
    )


def _joined_member(to: _Encoder, version: int, member: JoinGroupResponseMember) -> bytes:
    instance_id = to.string(member.group_instance_id) if version >= 5 else b""
    return to.string(member.member_id) + instance_id + to.data(member.metadata) + to.tags


def sync_group(
    version: int,
    error_code: int,
    protocol_type: str | None = None,
    protocol_name: str | None = None,
    assignment: bytes = b"",
) -> bytes:
    """Return the response of SyncGroup."""
    to = _encoder(ApiKey.SYNC_GROUP, version)
    protocol = to.string(protocol_type) + to.string(protocol_name) if version >= 5 else b""
    throttle = NO_THROTTLE if version >= 1 else b""
    return throttle + _INT16(error_code) + protocol + to.data(assignment) + to.tags


@cache
def heartbeat(version: int, error_code: int) -> bytes:
    """Return the response of Heartbeat."""
    throttle = NO_THROTTLE if version >= 1 else b""
    return throttle + _INT16(error_code) + _encoder(ApiKey.HEARTBEAT, version).tags


def leave_group(version: int, error_code: int, members: Iterable[tuple[str, str | None, int]] = ()) -> bytes:
    """Return the response of LeaveGroup; versions below 3 have one member, whose error is that of the response."""
    to = _encoder(ApiKey.LEAVE_GROUP, version)
    throttle = NO_THROTTLE if version >= 1 else b""
    results = [
        to.string(member_id) + to.string(instance_id) + _INT16(code) + to.tags
        for member_id, instance_id, code in members
    ]
    if version < 3:
        return throttle + _INT16(error_code)
    return throttle + _INT16(error_code) + to.array(results) + to.tags


def offset_commit(version: int, topics: Sequence[TopicErrors]) -> bytes:
    """Return the response of OffsetCommit."""
    to = _encoder(ApiKey.OFFSET_COMMIT, version)
    throttle = NO_THROTTLE if version >= 3 else b""
    results = [to.string(topic) + to.array(to.partition_errors(errors)) + to.tags for topic, errors in topics]
    return throttle + to.array(results) + to.tags


def stored_offset_commit(version: int, topics: Sequence[StoredTopic]) -> bytes:
    """Return the response of OffsetCommit if the offsets of all partitions are stored, in a third of the time."""
    to = _encoder(ApiKey.OFFSET_COMMIT, version)
    throttle = NO_THROTTLE if version >= 3 else b""
    results = [to.string(topic) + to.stored_partitions(partitions) + to.tags for topic, partitions in topics]
    return throttle + to.array(results) + to.tags


def offset_fetch(version: int, groups: Sequence[FetchedGroup]) -> bytes:
    """Return the response of OffsetFetch; versions below 8 have one group, and no name of it."""
    to = _encoder(ApiKey.OFFSET_FETCH, version)
    throttle = NO_THROTTLE if version >= 3 else b""
    if version >= 8:
        found = [
            to.string(group_id) + _fetched_topics(to, version, topics) + _INT16(code) + to.tags
            for group_id, topics, code in groups
        ]
        return throttle + to.array(found) + to.tags
    ((_, topics, code),) = groups
    return throttle + _fetched_topics(to, version, topics) + (_INT16(code) if version >= 2 else b"") + to.tags


def _fetched_topics(to: _Encoder, version: int, topics: Sequence[FetchedTopic]) -> bytes:
    has_epoch = version >= 5
    return to.array(
        [
            to.string(topic)
            + to.array(
                [
                    _COMMITTED(partition, offset)
                    + (_INT32(epoch) if has_epoch else b"")
                    + to.string(metadata)
                    + _INT16(code)
                    + to.tags
                    for partition, offset, epoch, metadata, code in partitions
                ]
            )
            + to.tags
            for topic, partitions in topics
        ]
    )


def fetch(version: int, topics: Sequence[tuple[str | UUID | None, Sequence[PartitionEnd]]]) -> bytes:
    """Return the response of Fetch without records; topics have names below version 13, and then ids."""
    to = _encoder(ApiKey.FETCH, version)
    log_start = NO_OFFSET if version >= 5 else b""
    preferred_replica = NO_REPLICA if version >= 11 else b""
    rest = log_start + to.null_list + preferred_replica + to.data(b"") + to.tags
    results = [
        (topic.bytes if isinstance(topic, UUID) else NO_ID if topic is None else to.string(topic))
        + to.array([_END(partition, code, end, end) + rest for partition, code, end in partitions])
        + to.tags
        for topic, partitions in topics
    ]
    error_and_session = bytes(6) if version >= 7 else b""
    return NO_THROTTLE + error_and_session + to.array(results) + to.tags


def metadata(  # the fields of the response
    version: int,
    brokers: Sequence[BrokerAddress],
    *,
    cluster_id: str | None,
    controller_id: int,
    topics: Sequence[DescribedTopic],
    authorized_operations: int = OPERATIONS_UNKNOWN,
) -> bytes:
    """Return the response of Metadata."""
    to = _encoder(ApiKey.METADATA, version)
    rack = to.string(None) if version >= 1 else b""
    addresses = [_INT32(one) + to.string(host) + _INT32(port) + rack + to.tags for one, host, port in brokers]
    return b"".join(
        (
            NO_THROTTLE if version >= 3 else b"",
            to.array(addresses),
            to.string(cluster_id) if version >= 2 else b"",
            _INT32(controller_id) if version >= 1 else b"",
            to.array([_described_topic(to, version, each) for each in topics]),
            _INT32(authorized_operations) if 8 <= version <= 10 else b"",
            _INT16(0) if version >= 13 else b"",
            to.tags,
        )
    )


def _described_topic(to: _Encoder, version: int, topic: DescribedTopic) -> bytes:
    topic_id = NO_ID if topic.topic_id is None else topic.topic_id.bytes
    led = _LED_WITH_EPOCH if version >= 7 else _LED
    offline = to.length(0) if version >= 5 else b""
    replicas = {leader: 2 * (to.length(1) + _INT32(leader)) + offline + to.tags for leader in set(topic.leaders)}
    return b"".join(
        (
            _INT16(topic.error_code),
            to.string(topic.name),
            topic_id if version >= 10 else b"",
            IS_NOT_INTERNAL if version >= 1 else b"",
            to.array([led(number, leader) + replicas[leader] for number, leader in enumerate(topic.leaders)]),
            _INT32(topic.authorized_operations) if version >= 8 else b"",
            to.tags,
        )
    )
