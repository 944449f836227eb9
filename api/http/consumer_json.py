"""Conversion between Kafka's bytes and JSON for subscriptions and assignments of protocol type "consumer".

The core stores Kafka's bytes. A member gets the form that it sends: JSON for JSON, base64 for base64. Bytes that cannot
be decoded are returned as base64 in either case.

Source: http-api.md "Metadata and assignments".
"""

import binascii
from base64 import b64decode, b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from msgspec import UNSET, Struct, UnsetType

from api.http.fields import Generation, Partition, Topic
from api.http.limits import BASE64_MEMBERS_MAX
from api.shared.limits import TOPIC_MAX_CHARS
from coordinator_core.protocol.consumer_protocol import (
    CONSUMER,
    Assignment,
    HoldsNul,
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
UNSTORABLE_TOPIC: Final = f"names a topic that holds NUL or is longer than {TOPIC_MAX_CHARS} characters"


class PartitionsOfTopic(Struct, forbid_unknown_fields=True):
    """Some partitions of one topic."""

    topic: Topic
    partitions: list[Partition]


class SubscriptionJson(Struct, forbid_unknown_fields=True):
    """A member's subscribed topics, and the partitions that it owns."""

    topics: list[Topic]
    owned_partitions: list[PartitionsOfTopic] = []
    user_data: str | None = None
    generation: Generation | UnsetType = UNSET
    """The generation of the owned partitions; absent unless the member sent it."""
    rack: str | UnsetType = UNSET


class AssignmentJson(Struct, forbid_unknown_fields=True):
    """The partitions assigned to a member."""

    partitions: list[PartitionsOfTopic]
    user_data: str | None = None


# -- in ---------------------------------------------------------------------------------------------


def subscription_bytes(place: str, given: SubscriptionJson | str, protocol_type: str) -> bytes:
    """Return a member's metadata as the bytes that the core stores.

    Args:
        place: the path of the field in the request, for error messages.
        given: JSON for type "consumer", or base64 for any type.
        protocol_type: the type that the member joins with.

    Raises:
        InvalidRequest: JSON for another type, invalid base64, or a text that the database cannot hold.
    """
    if isinstance(given, str):
        data = base64_bytes(place, given)
        if protocol_type == CONSUMER:
            _check_subscription_text(place, data)
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
    """Return the assignment of one member as the bytes that the core stores.

    Args:
        place: the path of the field in the request, for error messages.
        given: JSON for type "consumer", or base64 for any type.
        protocol_type: the group's type, if the leader sent it; bytes of types other than "consumer" are not checked.

    Raises:
        InvalidRequest: invalid base64, or a text that the database cannot hold.
    """
    if isinstance(given, str):
        data = base64_bytes(place, given)
        if protocol_type in {None, CONSUMER}:
            _check_assignment_text(place, data)
        return data
    return write_assignment(Assignment(_partitions(given.partitions), _user_data(place, given.user_data)))


def base64_bytes(place: str, text: str) -> bytes:
    """Decode base64.

    Raises:
        InvalidRequest: the text is not base64.
    """
    try:
        return b64decode(text.encode("ascii"), validate=True)
    except (binascii.Error, UnicodeEncodeError):
        raise InvalidRequest(f"{place}: expected base64") from None


def _user_data(place: str, text: str | None) -> bytes | None:
    return None if text is None else base64_bytes(f"{place}.user_data", text)


def _partitions(given: list[PartitionsOfTopic]) -> tuple[TopicPartitions, ...]:
    return tuple(TopicPartitions(each.topic, tuple(each.partitions)) for each in given)


def _check_subscription_text(place: str, data: bytes) -> None:
    """Refuse a subscription with a topic that the database cannot hold."""
    topics = list(topics_of(data) or ())
    with _readable(place):
        topics += [topic for topic, _ in read_subscription(data).owned_partitions]
    _check_topics(place, topics)


def _check_assignment_text(place: str, data: bytes) -> None:
    assignment = Assignment(())
    with _readable(place):
        assignment = read_assignment(data)
    _check_topics(place, [topic for topic, _ in assignment.partitions])
    for topic, numbers in assignment.partitions:
        if not topic:
            raise InvalidRequest(f"{place}: names a topic that is empty")
        if min(numbers, default=0) < 0:
            raise InvalidRequest(f"{place}: names a partition below 0")


@contextmanager
def _readable(place: str) -> Iterator[None]:
    """Suppress `Unreadable`; refuse a text that holds NUL."""
    try:
        yield
    except HoldsNul:
        raise InvalidRequest(f"{place}: {UNSTORABLE_TOPIC}") from None
    except Unreadable:
        pass


def _check_topics(place: str, topics: list[str]) -> None:
    if any(len(topic) > TOPIC_MAX_CHARS for topic in topics):
        raise InvalidRequest(f"{place}: {UNSTORABLE_TOPIC}")


# -- out ----------------------------------------------------------------------------------------------


def subscription_json(data: bytes, *, as_json: bool) -> SubscriptionJson | str:
    """Return a member's metadata as JSON, or as base64 if that is asked for or it cannot be decoded."""
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


def assignment_json(data: bytes, *, as_json: bool) -> AssignmentJson | str:
    """Return an assignment as JSON, or as base64 if that is asked for or it cannot be decoded."""
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


# -- members that use base64 ------------------------------------------------------------------------------


class Base64Members:
    """The members of type "consumer" that joined with base64: a follower's sync shows no form, and gets this one.

    Holds the latest `limit` members; a member that is not in it gets JSON.
    """

    def __init__(self, limit: int = BASE64_MEMBERS_MAX) -> None:
        self._limit = limit
        self._members: dict[tuple[str, str], None] = {}

    def record(self, group_id: str, member_id: str, *, uses_base64: bool) -> None:
        """Record the form with which a member has joined."""
        key = (group_id, member_id)
        self._members.pop(key, None)
        if uses_base64:
            self._members[key] = None
            if len(self._members) > self._limit:
                del self._members[next(iter(self._members))]

    def __contains__(self, key: tuple[str, str]) -> bool:
        return key in self._members
