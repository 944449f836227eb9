"""Requests about groups in versions that aiokafka does not have: their schemas, and nothing else.

ListGroups (4, 5), DescribeGroups (5), ConsumerGroupDescribe (0) and OffsetFetch (8). Source: the JSON files of these
requests in Kafka's module clients.
"""

from collections.abc import Sequence
from typing import Any, Final

from aiokafka.protocol.api import Request, RequestStruct, Response  # type: ignore[import-untyped]  # comes without types
from aiokafka.protocol.types import (  # type: ignore[import-untyped]  # comes without types
    Boolean,
    CompactArray,
    CompactBytes,
    CompactString,
    Int16,
    Int32,
    Int64,
    Schema,
    TaggedFields,
)

from mirror.topic_ids import Uuid

TEXT: Final = CompactString()
TEXTS: Final = CompactArray(CompactString())
TAGS: Final = ("tags", TaggedFields)

_LISTED: Final = (("group_id", TEXT), ("protocol_type", TEXT), ("state", TEXT))
_DESCRIBED_MEMBER: Final = (
    ("member_id", TEXT),
    ("group_instance_id", TEXT),
    ("client_id", TEXT),
    ("client_host", TEXT),
    ("metadata", CompactBytes),
    ("assignment", CompactBytes),
    TAGS,
)
_DESCRIBED: Final = (
    ("error_code", Int16),
    ("group_id", TEXT),
    ("state", TEXT),
    ("protocol_type", TEXT),
    ("protocol", TEXT),
    ("members", CompactArray(*_DESCRIBED_MEMBER)),
    ("authorized_operations", Int32),
    TAGS,
)
_ASSIGNMENT: Final = Schema(
    ("partitions", CompactArray(("topic_id", Uuid), ("topic", TEXT), ("partitions", CompactArray(Int32)), TAGS)), TAGS
)
_CONSUMER_MEMBER: Final = (
    ("member_id", TEXT),
    ("group_instance_id", TEXT),
    ("rack_id", TEXT),
    ("epoch", Int32),
    ("client_id", TEXT),
    ("client_host", TEXT),
    ("topics", TEXTS),
    ("topic_regex", TEXT),
    ("assignment", _ASSIGNMENT),
    ("target_assignment", _ASSIGNMENT),
    TAGS,
)
_CONSUMER_GROUP: Final = (
    ("error_code", Int16),
    ("error_message", TEXT),
    ("group_id", TEXT),
    ("state", TEXT),
    ("epoch", Int32),
    ("assignment_epoch", Int32),
    ("assignor", TEXT),
    ("members", CompactArray(*_CONSUMER_MEMBER)),
    ("authorized_operations", Int32),
    TAGS,
)
_OFFSET: Final = (
    ("partition", Int32),
    ("offset", Int64),
    ("leader_epoch", Int32),
    ("metadata", TEXT),
    ("error_code", Int16),
    TAGS,
)
_OFFSETS: Final = (
    ("group_id", TEXT),
    ("topics", CompactArray(("topic", TEXT), ("partitions", CompactArray(*_OFFSET)), TAGS)),
    ("error_code", Int16),
    TAGS,
)
_THROTTLE: Final = ("throttle_time_ms", Int32)
_ERROR: Final = ("error_code", Int16)


def _version(api_key: int, version: int, request: Schema, response: Schema) -> Any:  # noqa: ANN401 - no types
    """Return the class of one version of a request, which has that of its response."""
    key = {"API_KEY": api_key, "API_VERSION": version}
    answer = type("_Response", (Response,), {**key, "SCHEMA": response})
    return type(
        "_Request", (RequestStruct,), {**key, "FLEXIBLE_VERSION": True, "RESPONSE_TYPE": answer, "SCHEMA": request}
    )


_LIST_4: Final = _version(
    *(16, 4),
    Schema(("states", TEXTS), TAGS),
    Schema(_THROTTLE, _ERROR, ("groups", CompactArray(*_LISTED, TAGS)), TAGS),
)
_LIST_5: Final = _version(
    *(16, 5),
    Schema(("states", TEXTS), ("types", TEXTS), TAGS),
    Schema(_THROTTLE, _ERROR, ("groups", CompactArray(*_LISTED, ("group_type", TEXT), TAGS)), TAGS),
)
_GROUP_IDS: Final = Schema(("group_ids", TEXTS), ("include_authorized_operations", Boolean), TAGS)
_DESCRIBE: Final = _version(15, 5, _GROUP_IDS, Schema(_THROTTLE, ("groups", CompactArray(*_DESCRIBED)), TAGS))
_DESCRIBE_CONSUMER: Final = _version(
    69, 0, _GROUP_IDS, Schema(_THROTTLE, ("groups", CompactArray(*_CONSUMER_GROUP)), TAGS)
)
_FETCH: Final = _version(
    *(9, 8),
    Schema(("groups", CompactArray(("group_id", TEXT), ("topics", TEXTS), TAGS)), ("require_stable", Boolean), TAGS),
    Schema(_THROTTLE, ("groups", CompactArray(*_OFFSETS)), TAGS),
)


class ListGroups(Request[_LIST_4 | _LIST_5]):  # type: ignore[misc]  # aiokafka has no types
    """List the groups of a broker in some states; without states in all."""

    API_KEY = 16

    def __init__(self, states: Sequence[str] = ()) -> None:
        self._states = list(states)

    def build(self, request_struct_class: Any) -> RequestStruct:  # noqa: ANN401 - one of two classes
        """Build a version."""
        no_types: tuple[list[str], ...] = ([],) if request_struct_class is _LIST_5 else ()
        return request_struct_class(self._states, *no_types, {})


class DescribeGroups(Request[_DESCRIBE]):  # type: ignore[misc]  # aiokafka has no types
    """Describe groups of the classic protocol."""

    API_KEY = 15

    def __init__(self, group_ids: Sequence[str]) -> None:
        self._group_ids = list(group_ids)

    def build(self, request_struct_class: Any) -> RequestStruct:  # noqa: ANN401 - no types
        """Build the version."""
        return request_struct_class(self._group_ids, False, {})


class DescribeConsumerGroups(Request[_DESCRIBE_CONSUMER]):  # type: ignore[misc]  # aiokafka has no types
    """Describe groups of the consumer protocol."""

    API_KEY = 69

    def __init__(self, group_ids: Sequence[str]) -> None:
        self._group_ids = list(group_ids)

    def build(self, request_struct_class: Any) -> RequestStruct:  # noqa: ANN401 - no types
        """Build the version."""
        return request_struct_class(self._group_ids, False, {})


class FetchOffsets(Request[_FETCH]):  # type: ignore[misc]  # aiokafka has no types
    """Fetch all committed offsets of groups."""

    API_KEY = 9

    def __init__(self, group_ids: Sequence[str]) -> None:
        self._groups: list[tuple[str, None, dict[int, bytes]]] = [(group_id, None, {}) for group_id in group_ids]

    def build(self, request_struct_class: Any) -> RequestStruct:  # noqa: ANN401 - no types
        """Build the version."""
        return request_struct_class(self._groups, False, {})
