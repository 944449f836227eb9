"""Members of type "consumer" may write JSON; the core keeps Kafka's own bytes, and the edge stands between.

A caller reads everyone in the form in which it sends: who sends base64 gets base64. What cannot be read as JSON comes
as base64 to everybody.

Source: http-api.md "Metadata and assignments".
"""

import binascii
from base64 import b64decode, b64encode
from contextlib import suppress
from typing import Final

from msgspec import UNSET, Struct, UnsetType

from api.http.fields import Generation, Partition, Topic
from api.http.limits import OPAQUE_READERS_MAX, TOPIC_MAX_CHARS
from coordinator_core.protocol.consumer_protocol import (
    CONSUMER,
    Assignment,
    Subscription,
    TopicPartitions,
    Unreadable,
    read_assignment,
    read_subscription,
    topics_of,
    write_assignment,
    write_subscription,
)
from coordinator_core.protocol.errors import InvalidRequest

RACK_MAX_CHARS: Final = 255


class PartitionsOfTopic(Struct, forbid_unknown_fields=True):
    """Some partitions of one topic."""

    topic: Topic
    partitions: list[Partition]


class SubscriptionJson(Struct, forbid_unknown_fields=True):
    """What a member wants to read, and what it holds."""

    topics: list[Topic]
    owned_partitions: list[PartitionsOfTopic] = []
    user_data: str | None = None
    generation: Generation | UnsetType = UNSET
    """Of which generation the owned partitions are; there only where the member says so."""
    rack: str | UnsetType = UNSET


class AssignmentJson(Struct, forbid_unknown_fields=True):
    """What a member is to read."""

    partitions: list[PartitionsOfTopic]
    user_data: str | None = None


# -- in ---------------------------------------------------------------------------------------------


def subscription_bytes(place: str, given: SubscriptionJson | str, protocol_type: str) -> bytes:
    """Return the metadata that a member offers as the core keeps it.

    Args:
        place: where it stands in the request, for the refusal.
        given: JSON for type "consumer", or base64 for any.
        protocol_type: the type that the member joins with.

    Raises:
        InvalidRequest: JSON for another type, base64 that is none, or text that cannot be kept.
    """
    if isinstance(given, str):
        data = base64_bytes(place, given)
        if protocol_type == CONSUMER:
            _refuse_unkeepable_subscription(place, data)
        return data
    if protocol_type != CONSUMER:
        raise InvalidRequest(f'{place}: an object is read for protocol_type "consumer" only; send base64')
    rack = None if given.rack is UNSET else given.rack
    if rack is not None and len(rack) > RACK_MAX_CHARS:
        raise InvalidRequest(f"{place}.rack: expected str of length <= {RACK_MAX_CHARS}")
    subscription = Subscription(
        topics=tuple(given.topics),
        owned_partitions=_partitions(given.owned_partitions),
        user_data=_user_data(place, given.user_data),
        generation=-1 if given.generation is UNSET else given.generation,
        rack=rack,
    )
    return write_subscription(subscription)


def assignment_bytes(place: str, given: AssignmentJson | str, protocol_type: str | None = None) -> bytes:
    """Return one member's part of an assignment as the core keeps it.

    Args:
        place: where it stands in the request, for the refusal.
        given: JSON for type "consumer", or base64 for any.
        protocol_type: the group's type, where the leader says it; bytes of another type are nobody's but the clients'.

    Raises:
        InvalidRequest: base64 that is none, or text that cannot be kept.
    """
    if isinstance(given, str):
        data = base64_bytes(place, given)
        if protocol_type in {None, CONSUMER}:
            _refuse_unkeepable_assignment(place, data)
        return data
    return write_assignment(Assignment(_partitions(given.partitions), _user_data(place, given.user_data)))


def base64_bytes(place: str, text: str) -> bytes:
    """Return the bytes that base64 stands for.

    Raises:
        InvalidRequest: it is none.
    """
    try:
        return b64decode(text.encode("ascii"), validate=True)
    except (binascii.Error, UnicodeEncodeError):
        raise InvalidRequest(f"{place}: expected base64") from None


def _user_data(place: str, text: str | None) -> bytes | None:
    return None if text is None else base64_bytes(f"{place}.user_data", text)


def _partitions(given: list[PartitionsOfTopic]) -> tuple[TopicPartitions, ...]:
    return tuple(TopicPartitions(each.topic, tuple(each.partitions)) for each in given)


def _refuse_unkeepable_subscription(place: str, data: bytes) -> None:
    """Refuse bytes that the core will read, if only their topics, and that hold one that the database cannot keep."""
    topics = list(topics_of(data) or ())
    with suppress(Unreadable):
        topics += [topic for topic, _ in read_subscription(data).owned_partitions]
    _check_topics(place, topics)


def _refuse_unkeepable_assignment(place: str, data: bytes) -> None:
    try:
        assignment = read_assignment(data)
    except Unreadable:
        return
    _check_topics(place, [topic for topic, _ in assignment.partitions])
    for topic, numbers in assignment.partitions:
        if not topic:
            raise InvalidRequest(f"{place}: names a topic that is empty")
        if min(numbers, default=0) < 0:
            raise InvalidRequest(f"{place}: names a partition below 0")


def _check_topics(place: str, topics: list[str]) -> None:
    for topic in topics:
        if "\0" in topic or len(topic) > TOPIC_MAX_CHARS:
            raise InvalidRequest(
                f"{place}: names a topic that holds NUL or is longer than {TOPIC_MAX_CHARS} characters"
            )


# -- out ----------------------------------------------------------------------------------------------


def subscription_shown(data: bytes, *, as_json: bool) -> SubscriptionJson | str:
    """Return a member's metadata in the form its reader sends; what cannot be read is base64 in any case."""
    if not as_json:
        return base64_text(data)
    try:
        subscription = read_subscription(data)
    except Unreadable:
        return base64_text(data)
    return SubscriptionJson(
        topics=list(subscription.topics),
        owned_partitions=_partitions_json(subscription.owned_partitions),
        user_data=_user_data_text(subscription.user_data),
        generation=UNSET if subscription.generation < 0 else subscription.generation,
        rack=UNSET if subscription.rack is None else subscription.rack,
    )


def assignment_shown(data: bytes, *, as_json: bool) -> AssignmentJson | str:
    """Return an assignment in the form its reader sends; no bytes are an empty one."""
    if not as_json:
        return base64_text(data)
    try:
        assignment = read_assignment(data)
    except Unreadable:
        return base64_text(data)
    return AssignmentJson(_partitions_json(assignment.partitions), _user_data_text(assignment.user_data))


def base64_text(data: bytes) -> str:
    """Return bytes as base64."""
    return b64encode(data).decode("ascii")


def _user_data_text(data: bytes | None) -> str | None:
    return None if data is None else base64_text(data)


def _partitions_json(partitions: tuple[TopicPartitions, ...]) -> list[PartitionsOfTopic]:
    return [PartitionsOfTopic(topic, list(numbers)) for topic, numbers in partitions]


# -- who reads what ---------------------------------------------------------------------------------------


class OpaqueReaders:
    """The members of type "consumer" that joined with base64, so that a sync that sends nothing is answered in kind.

    A node remembers a bounded number of them, the latest; whom it does not know reads JSON.
    """

    def __init__(self, limit: int = OPAQUE_READERS_MAX) -> None:
        self._limit = limit
        self._members: dict[tuple[str, str], None] = {}

    def note(self, group_id: str, member_id: str, *, is_opaque: bool) -> None:
        """Take note of the form in which a member has joined."""
        key = (group_id, member_id)
        self._members.pop(key, None)
        if is_opaque:
            self._members[key] = None
            if len(self._members) > self._limit:
                del self._members[next(iter(self._members))]

    def __contains__(self, key: tuple[str, str]) -> bool:
        return key in self._members
