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


class _ListResponse4(Response):  # type: ignore[misc]  # aiokafka has no types
    API_KEY, API_VERSION = 16, 4
    SCHEMA = Schema(_THROTTLE, _ERROR, ("groups", CompactArray(*_LISTED, TAGS)), TAGS)


class _ListResponse5(Response):  # type: ignore[misc]  # aiokafka has no types
    API_KEY, API_VERSION = 16, 5
    SCHEMA = Schema(_THROTTLE, _ERROR, ("groups", CompactArray(*_LISTED, ("group_type", TEXT), TAGS)), TAGS)


class _ListRequest4(RequestStruct):  # type: ignore[misc]  # aiokafka has no types
    FLEXIBLE_VERSION = True
    API_KEY, API_VERSION = 16, 4
    RESPONSE_TYPE = _ListResponse4
    SCHEMA = Schema(("states", TEXTS), TAGS)


class _ListRequest5(RequestStruct):  # type: ignore[misc]  # aiokafka has no types
    FLEXIBLE_VERSION = True
    API_KEY, API_VERSION = 16, 5
    RESPONSE_TYPE = _ListResponse5
    SCHEMA = Schema(("states", TEXTS), ("types", TEXTS), TAGS)


class ListGroups(Request[_ListRequest4 | _ListRequest5]):  # type: ignore[misc]  # aiokafka has no types
    """List the groups of a broker in some states; without states in all."""

    API_KEY = 16

    def __init__(self, states: Sequence[str] = ()) -> None:
        self._states = list(states)

    def build(self, request_struct_class: Any) -> RequestStruct:  # noqa: ANN401 - one of two classes
        """Build a version."""
        no_types: tuple[list[str], ...] = ([],) if request_struct_class is _ListRequest5 else ()
        return request_struct_class(self._states, *no_types, {})


class _DescribeResponse(Response):  # type: ignore[misc]  # aiokafka has no types
    API_KEY, API_VERSION = 15, 5
    SCHEMA = Schema(_THROTTLE, ("groups", CompactArray(*_DESCRIBED)), TAGS)


class _DescribeRequest(RequestStruct):  # type: ignore[misc]  # aiokafka has no types
    FLEXIBLE_VERSION = True
    API_KEY, API_VERSION = 15, 5
    RESPONSE_TYPE = _DescribeResponse
    SCHEMA = Schema(("group_ids", TEXTS), ("include_authorized_operations", Boolean), TAGS)


class _ConsumerResponse(Response):  # type: ignore[misc]  # aiokafka has no types
    API_KEY, API_VERSION = 69, 0
    SCHEMA = Schema(_THROTTLE, ("groups", CompactArray(*_CONSUMER_GROUP)), TAGS)


class _ConsumerRequest(RequestStruct):  # type: ignore[misc]  # aiokafka has no types
    FLEXIBLE_VERSION = True
    API_KEY, API_VERSION = 69, 0
    RESPONSE_TYPE = _ConsumerResponse
    SCHEMA = Schema(("group_ids", TEXTS), ("include_authorized_operations", Boolean), TAGS)


class DescribeGroups(Request[_DescribeRequest]):  # type: ignore[misc]  # aiokafka has no types
    """Describe groups of the classic protocol."""

    API_KEY = 15

    def __init__(self, group_ids: Sequence[str]) -> None:
        self._group_ids = list(group_ids)

    def build(self, request_struct_class: type[_DescribeRequest]) -> _DescribeRequest:
        """Build the version."""
        return request_struct_class(self._group_ids, False, {})


class DescribeConsumerGroups(Request[_ConsumerRequest]):  # type: ignore[misc]  # aiokafka has no types
    """Describe groups of the consumer protocol."""

    API_KEY = 69

    def __init__(self, group_ids: Sequence[str]) -> None:
        self._group_ids = list(group_ids)

    def build(self, request_struct_class: type[_ConsumerRequest]) -> _ConsumerRequest:
        """Build the version."""
        return request_struct_class(self._group_ids, False, {})


class _OffsetsResponse(Response):  # type: ignore[misc]  # aiokafka has no types
    API_KEY, API_VERSION = 9, 8
    SCHEMA = Schema(_THROTTLE, ("groups", CompactArray(*_OFFSETS)), TAGS)


class _OffsetsRequest(RequestStruct):  # type: ignore[misc]  # aiokafka has no types
    FLEXIBLE_VERSION = True
    API_KEY, API_VERSION = 9, 8
    RESPONSE_TYPE = _OffsetsResponse
    SCHEMA = Schema(
        ("groups", CompactArray(("group_id", TEXT), ("topics", CompactArray(CompactString())), TAGS)),
        ("require_stable", Boolean),
        TAGS,
    )


class FetchOffsets(Request[_OffsetsRequest]):  # type: ignore[misc]  # aiokafka has no types
    """Fetch all committed offsets of groups."""

    API_KEY = 9

    def __init__(self, group_ids: Sequence[str]) -> None:
        self._groups: list[tuple[str, None, dict[int, bytes]]] = [(group_id, None, {}) for group_id in group_ids]

    def build(self, request_struct_class: type[_OffsetsRequest]) -> _OffsetsRequest:
        """Build the version."""
        return request_struct_class(self._groups, False, {})
