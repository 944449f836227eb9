"""Reader and writer of the subscription and assignment bytes of Kafka's "consumer" protocol type.

The group itself only reads the topics of a subscription; the HTTP API translates between these bytes and JSON. Bytes
that cannot be read raise `Unreadable`; the subscription then counts as unknown.

Source: Kafka's ``ConsumerProtocolSubscription.json`` (versions 0-3) and ``ConsumerProtocolAssignment.json``
(versions 0-3): big-endian, strings with an int16 length, arrays and bytes with an int32 length (-1: null).
"""

import struct
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

CONSUMER = "consumer"
"""The protocol type whose subscriptions the coordinator reads."""
SUBSCRIPTION_VERSION = 1
ASSIGNMENT_VERSION = 0
SHORT = 1_024
REMEMBERED = 4_096
"""A rebalance reads the same bytes several times, so the results of as many short ones are remembered."""
_OWNED_SINCE = 1
_GENERATION_SINCE = 2
_RACK_SINCE = 3
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")


class Unreadable(ValueError):
    """The bytes are not a valid subscription or assignment."""


class HoldsNul(Unreadable):
    """A string in the bytes holds NUL, which Postgres does not store."""


class TopicPartitions(NamedTuple):
    """Partitions of one topic, in the order given."""

    topic: str
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Subscription:
    """The topics that a member subscribes to, and the partitions that it owns."""

    topics: tuple[str, ...]
    owned_partitions: tuple[TopicPartitions, ...] = ()
    user_data: bytes | None = None
    generation: int = -1
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class Assignment:
    """The partitions assigned to a member."""

    partitions: tuple[TopicPartitions, ...]
    user_data: bytes | None = None


def read_subscription(data: bytes) -> Subscription:
    """Read a subscription of any version; fields of newer versions are ignored.

    Some clients, such as sarama-cluster, send version 1 without owned partitions.

    Raises:
        Unreadable: the bytes are not a valid subscription.
    """
    reader = _Reader(data)
    version, topics, user_data = _read_first_fields(reader)
    if version < _OWNED_SINCE or reader.is_at_end:
        return Subscription(topics, user_data=user_data)
    owned = _read_partitions(reader)
    generation = reader.int32() if version >= _GENERATION_SINCE else -1
    rack = reader.nullable_string() if version >= _RACK_SINCE else None
    return Subscription(topics, owned, user_data, generation, rack)


def write_subscription(subscription: Subscription) -> bytes:
    """Write a subscription: version 1, or 2 if it has a generation, or 3 if it has a rack."""
    version = SUBSCRIPTION_VERSION
    if subscription.rack is not None:
        version = _RACK_SINCE
    elif subscription.generation >= 0:
        version = _GENERATION_SINCE
    parts = [_int16(version), _int32(len(subscription.topics)), *map(_string, subscription.topics)]
    parts += [_nullable_bytes(subscription.user_data), _write_partitions(subscription.owned_partitions)]
    if version >= _GENERATION_SINCE:
        parts.append(_int32(subscription.generation))
    if version >= _RACK_SINCE:
        parts.append(_nullable_string(subscription.rack))
    return b"".join(parts)


def read_assignment(data: bytes) -> Assignment:
    """Read an assignment; zero bytes are an empty one, as for a member that the leader did not name.

    Raises:
        Unreadable: the bytes are not a valid assignment.
    """
    if not data:
        return Assignment(())
    reader = _Reader(data)
    if reader.int16() < 0:
        raise Unreadable("a negative version")
    return Assignment(_read_partitions(reader), reader.nullable_bytes())


def write_assignment(assignment: Assignment) -> bytes:
    """Write an assignment, version 0."""
    parts = [_int16(ASSIGNMENT_VERSION), _write_partitions(assignment.partitions)]
    return b"".join([*parts, _nullable_bytes(assignment.user_data)])


def topics_of(metadata: bytes) -> frozenset[str] | None:
    """Return the topics of a subscription, or None if they cannot be read.

    Only the fields of version 0 are read, whatever the version.

    Source: Kafka's ``ClassicGroup.computeSubscribedTopics``.
    """
    return _topics_of_short(metadata) if len(metadata) <= SHORT else _topics_of(metadata)


def _topics_of(metadata: bytes) -> frozenset[str] | None:
    try:
        _, topics, _ = _read_first_fields(_Reader(metadata))
    except Unreadable:
        return None
    return frozenset(topics)


def partitions_of(assignment: bytes) -> tuple[TopicPartitions, ...] | None:
    """Return the partitions of an assignment, or None if it cannot be read."""
    return _partitions_of_short(assignment) if len(assignment) <= SHORT else _partitions_of(assignment)


def _partitions_of(assignment: bytes) -> tuple[TopicPartitions, ...] | None:
    try:
        return read_assignment(assignment).partitions
    except Unreadable:
        return None


_topics_of_short = lru_cache(REMEMBERED)(_topics_of)
_partitions_of_short = lru_cache(REMEMBERED)(_partitions_of)


# -- bytes ----------------------------------------------------------------------------------------


class _Reader:
    """Reads bytes from the front; raises `Unreadable` past their end."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def is_at_end(self) -> bool:
        return self._at == len(self._data)

    def _take(self, length: int) -> bytes:
        end = self._at + length
        if length < 0 or end > len(self._data):
            raise Unreadable(f"{length} bytes wanted at {self._at} of {len(self._data)}")
        taken = self._data[self._at : end]
        self._at = end
        return taken

    def int16(self) -> int:
        return self._number(_INT16)

    def int32(self) -> int:
        return self._number(_INT32)

    def _number(self, form: struct.Struct) -> int:
        try:
            (value,) = form.unpack_from(self._data, self._at)
        except struct.error:
            raise Unreadable(f"{form.size} bytes wanted at {self._at} of {len(self._data)}") from None
        self._at += form.size
        return int(value)

    def count(self) -> int:
        """Read an array's length; null counts as empty, and more items than remaining bytes are invalid."""
        length = max(self.int32(), 0)
        if length > len(self._data) - self._at:
            raise Unreadable(f"an array of {length} in {len(self._data)} bytes")
        return length

    def int32s(self) -> tuple[int, ...]:
        count = self.count()
        return struct.unpack(f">{count}i", self._take(count * _INT32.size))

    def nullable_string(self) -> str | None:
        length = self.int16()
        if length < 0:
            return None
        try:
            text = self._take(length).decode()
        except UnicodeDecodeError as error:
            raise Unreadable("a string that is not UTF-8") from error
        if "\0" in text:
            raise HoldsNul("a string that holds NUL")
        return text

    def string(self) -> str:
        value = self.nullable_string()
        if value is None:
            raise Unreadable("a string that is null")
        return value

    def nullable_bytes(self) -> bytes | None:
        length = self.int32()
        return None if length < 0 else self._take(length)


def _read_first_fields(reader: _Reader) -> tuple[int, tuple[str, ...], bytes | None]:
    """Read version, topics and user data, with which every version of a subscription begins."""
    version = reader.int16()
    if version < 0:
        raise Unreadable(f"version {version}")
    return version, tuple(reader.string() for _ in range(reader.count())), reader.nullable_bytes()


def _read_partitions(reader: _Reader) -> tuple[TopicPartitions, ...]:
    return tuple(TopicPartitions(reader.string(), reader.int32s()) for _ in range(reader.count()))


def _write_partitions(partitions: tuple[TopicPartitions, ...]) -> bytes:
    parts = [_int32(len(partitions))]
    for topic, numbers in partitions:
        parts += [_string(topic), _int32(len(numbers)), struct.pack(f">{len(numbers)}i", *numbers)]
    return b"".join(parts)


def _int16(value: int) -> bytes:
    return _INT16.pack(value)


def _int32(value: int) -> bytes:
    return _INT32.pack(value)


def _string(value: str) -> bytes:
    encoded = value.encode()
    return _int16(len(encoded)) + encoded


def _nullable_string(value: str | None) -> bytes:
    return _int16(-1) if value is None else _string(value)


def _nullable_bytes(value: bytes | None) -> bytes:
    return _int32(-1) if value is None else _int32(len(value)) + value
