"""Names of topics by their ids: Kafka's Metadata request of version 12, which aiokafka does not have.

Source: `MetadataRequest.json` and `MetadataResponse.json` of Kafka's module clients.
"""

from collections.abc import Iterable
from io import BytesIO
from typing import Final
from uuid import UUID

from aiokafka.client import AIOKafkaClient  # type: ignore[import-untyped]  # comes without types
from aiokafka.errors import KafkaError, NoBrokersAvailable  # type: ignore[import-untyped]  # comes without types
from aiokafka.protocol.abstract import AbstractType  # type: ignore[import-untyped]  # comes without types
from aiokafka.protocol.api import Request, RequestStruct, Response  # type: ignore[import-untyped]  # comes without types
from aiokafka.protocol.types import (  # type: ignore[import-untyped]  # comes without types
    Boolean,
    CompactArray,
    CompactString,
    Int16,
    Int32,
    Schema,
    TaggedFields,
)

NO_ERROR: Final = 0


async def names_of(client: AIOKafkaClient, topic_ids: Iterable[UUID]) -> dict[UUID, str]:
    """Return the names of topics; those that do not exist, or that the user may not describe, are left out.

    Raises:
        KafkaError: no broker can be reached, or all refuse.
        OSError: no broker can be reached.
    """
    request, failure = _TopicsById(topic_ids), NoBrokersAvailable()
    for broker in client.cluster.brokers():
        try:
            response = await client.send(broker.nodeId, request)
            break
        except (KafkaError, OSError) as error:
            failure = error
    else:
        raise failure
    return {
        topic["topic_id"]: topic["name"]
        for topic in response.to_object()["topics"]
        if topic["error_code"] == NO_ERROR and topic["name"]
    }


class Uuid(AbstractType):  # type: ignore[misc]  # aiokafka has no types
    """Kafka's type of a UUID, which aiokafka does not have."""

    @classmethod
    def encode(cls, value: UUID) -> bytes:
        """Return its bytes."""
        return value.bytes

    @classmethod
    def decode(cls, data: BytesIO) -> UUID:
        """Read one."""
        return UUID(bytes=data.read(16))


_BROKER: Final = (
    ("node_id", Int32),
    ("host", CompactString()),
    ("port", Int32),
    ("rack", CompactString()),
    ("tags", TaggedFields),
)
_PARTITION: Final = (
    ("error_code", Int16),
    ("partition", Int32),
    ("leader_id", Int32),
    ("leader_epoch", Int32),
    ("replicas", CompactArray(Int32)),
    ("in_sync_replicas", CompactArray(Int32)),
    ("offline_replicas", CompactArray(Int32)),
    ("tags", TaggedFields),
)
_TOPIC: Final = (
    ("error_code", Int16),
    ("name", CompactString()),
    ("topic_id", Uuid),
    ("is_internal", Boolean),
    ("partitions", CompactArray(*_PARTITION)),
    ("authorized_operations", Int32),
    ("tags", TaggedFields),
)


class _MetadataResponse(Response):  # type: ignore[misc]  # aiokafka has no types
    API_KEY = 3
    API_VERSION = 12
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("brokers", CompactArray(*_BROKER)),
        ("cluster_id", CompactString()),
        ("controller_id", Int32),
        ("topics", CompactArray(*_TOPIC)),
        ("tags", TaggedFields),
    )


class _MetadataRequest(RequestStruct):  # type: ignore[misc]  # aiokafka has no types
    FLEXIBLE_VERSION = True
    API_KEY = 3
    API_VERSION = 12
    RESPONSE_TYPE = _MetadataResponse
    SCHEMA = Schema(
        ("topics", CompactArray(("topic_id", Uuid), ("name", CompactString()), ("tags", TaggedFields))),
        ("allow_auto_topic_creation", Boolean),
        ("include_topic_authorized_operations", Boolean),
        ("tags", TaggedFields),
    )


class _TopicsById(Request[_MetadataRequest]):  # type: ignore[misc]  # aiokafka has no types
    API_KEY = 3

    def __init__(self, topic_ids: Iterable[UUID]) -> None:
        self._topics: list[tuple[UUID, None, dict[int, bytes]]] = [(topic_id, None, {}) for topic_id in topic_ids]

    def build(self, request_struct_class: type[_MetadataRequest]) -> _MetadataRequest:
        return request_struct_class(self._topics, False, False, {})
