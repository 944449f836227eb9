"""The APIs that the listener offers, each with its versions.

The versions are those that clients of the classic protocol send (docs/kafka.md). Consumers fetch only from brokers that
offer Produce and Fetch in versions of message format 2, so that both are here.

Source: Kafka's message schemas for keys, and for the first flexible version of each API.
"""

from enum import IntEnum
from typing import Final, NamedTuple

from kio.schema.index import api_key_map


class ApiKey(IntEnum):
    """Kafka's numbers of the APIs."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    DESCRIBE_CONFIGS = 32
    SASL_AUTHENTICATE = 36
    DELETE_GROUPS = 42
    OFFSET_DELETE = 47
    DESCRIBE_CLUSTER = 60


class Api(NamedTuple):
    """An API with the versions that are offered."""

    name: str
    first: int
    last: int
    flexible_from: int
    """The first version with compact lengths and tagged fields."""


NO_TAGS: Final = b"\x00"
"""The tagged fields of a flexible version where there are none."""
NEVER: Final = 2**15
"""No version is flexible."""

APIS: Final = {
    ApiKey.PRODUCE: Api("Produce", 3, 9, 9),
    ApiKey.FETCH: Api("Fetch", 4, 14, 12),
    ApiKey.LIST_OFFSETS: Api("ListOffsets", 1, 9, 6),
    ApiKey.METADATA: Api("Metadata", 0, 13, 9),
    ApiKey.OFFSET_COMMIT: Api("OffsetCommit", 2, 9, 8),
    ApiKey.OFFSET_FETCH: Api("OffsetFetch", 1, 9, 6),
    ApiKey.FIND_COORDINATOR: Api("FindCoordinator", 0, 5, 3),
    ApiKey.JOIN_GROUP: Api("JoinGroup", 0, 9, 6),
    ApiKey.HEARTBEAT: Api("Heartbeat", 0, 4, 4),
    ApiKey.LEAVE_GROUP: Api("LeaveGroup", 0, 5, 4),
    ApiKey.SYNC_GROUP: Api("SyncGroup", 0, 5, 4),
    ApiKey.DESCRIBE_GROUPS: Api("DescribeGroups", 0, 6, 5),
    ApiKey.LIST_GROUPS: Api("ListGroups", 0, 5, 3),
    ApiKey.SASL_HANDSHAKE: Api("SaslHandshake", 0, 1, NEVER),
    ApiKey.API_VERSIONS: Api("ApiVersions", 0, 4, 3),
    ApiKey.DESCRIBE_CONFIGS: Api("DescribeConfigs", 1, 4, 4),
    ApiKey.SASL_AUTHENTICATE: Api("SaslAuthenticate", 0, 2, 2),
    ApiKey.DELETE_GROUPS: Api("DeleteGroups", 0, 2, 2),
    ApiKey.OFFSET_DELETE: Api("OffsetDelete", 0, 0, NEVER),
    ApiKey.DESCRIBE_CLUSTER: Api("DescribeCluster", 0, 1, 0),
}


def other_api_name(api_key: int) -> str:
    """Return Kafka's name of an API that is not offered, or its number."""
    return "".join(word.capitalize() for word in api_key_map.get(api_key, "").split("_")) or f"API {api_key}"
