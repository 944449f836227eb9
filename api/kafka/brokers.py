"""ApiVersions, Metadata, FindCoordinator, DescribeCluster and DescribeConfigs: what clients ask any broker.

Every node with the listener is a broker. The partitions of a topic have leaders too, by rendezvous hashing over the
brokers, so that all nodes say the same; clients that fetch from them learn that there are no records (`records`).
"""

import asyncio
import re
import zlib
from collections.abc import Mapping
from functools import partial
from typing import Final, NamedTuple
from urllib.parse import urlsplit
from uuid import UUID

from api.kafka import LISTENER, hot_responses
from api.kafka.apis import APIS, ApiKey
from api.kafka.authorized_operations import OF_CLUSTER, OF_READABLE_TOPIC
from api.kafka.errors import (
    INVALID_REQUEST,
    INVALID_TOPIC,
    MISMATCHED_ENDPOINT_TYPE,
    TOPIC_AUTHORIZATION_FAILED,
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
    UNSUPPORTED_ENDPOINT_TYPE,
    UNSUPPORTED_VERSION,
)
from api.kafka.hot_responses import OPERATIONS_UNKNOWN, DescribedTopic
from api.kafka.messages import Fields, encode
from api.kafka.request import KafkaRequest
from api.shared.access_control import Operation
from api.shared.limits import PARTITION_COUNT_MAX
from api.shared.topic_ids import topic_id_of
from api.shared.turns import CONVERTED_AT_ONCE, convert_all
from coordinator_core.protocol.errors import CoordinatorError, CoordinatorNotAvailable
from coordinator_core.protocol.settings import TopicMetadata
from coordinator_core.runtime.coordinator import Coordinator

BROKER_IDS: Final = 2**30
"""Broker ids are below: Java gives a coordinator's connection the id 2^31 - 1 - id, and recognizes that."""
GROUP_KEY: Final = 0
"""The key type of groups in FindCoordinator."""
SEVERAL_KEYS_FROM: Final = 4
"""The first version of FindCoordinator with several keys."""

BROKER_ENDPOINTS: Final = 1
CONTROLLER_ENDPOINTS: Final = 2
"""Types of endpoints in DescribeCluster."""
TOPIC_RESOURCE: Final = 2
BROKER_RESOURCES: Final = frozenset({4, 8})
"""Brokers and their loggers; an empty name stands for the defaults of all."""
OTHER_RESOURCES: Final = frozenset({16, 32})
"""Client metrics and groups."""
KAFKA_TOPIC: Final = re.compile(r"(?!\.{1,2}\Z)[a-zA-Z0-9._-]{1,249}")
"""Source: Kafka's Topic.validate."""
NULL_TOPIC_NAMES_FROM: Final = 12
"""The first version of Metadata in which a topic of the response may have an id and no name."""


class Broker(NamedTuple):
    """A node as Kafka's clients see it."""

    broker_id: int
    host: str
    port: int


NO_BROKER: Final = Broker(-1, "", -1)


def broker_id_of(node_id: str) -> int:
    """Return the broker id of a node, which depends on nothing but the node's id."""
    return zlib.crc32(node_id.encode()) % BROKER_IDS


def live_brokers(coordinator: Coordinator) -> list[Broker]:
    """Return this node and the others that have leases and this listener, by broker id."""
    return sorted(_broker(node_id, address) for node_id, address in coordinator.addresses(LISTENER).items())


def _broker(node_id: str, address: str) -> Broker:
    parsed = urlsplit(f"//{address}")
    return Broker(broker_id_of(node_id), parsed.hostname or "", parsed.port or 0)


# -- ApiVersions ------------------------------------------------------------------------------------


async def api_versions(request: KafkaRequest) -> bytes:
    """Return which APIs are offered in which versions."""
    return encode(ApiKey.API_VERSIONS, request.version, {"api_keys": _offered()})


def unsupported_api_versions() -> bytes:
    """Return the response to a version of ApiVersions that is not offered: in version 0, with those that are."""
    return encode(ApiKey.API_VERSIONS, 0, {"error_code": UNSUPPORTED_VERSION, "api_keys": _offered()})


def _offered() -> list[Fields]:
    return [{"api_key": key, "min_version": api.first, "max_version": api.last} for key, api in APIS.items()]


# -- Metadata ---------------------------------------------------------------------------------------


async def metadata(request: KafkaRequest) -> bytes:
    """Return the brokers, and the partitions of topics that have metadata and that the token may read.

    Source: KafkaApis.handleTopicMetadataRequest: without names, other topics are left out; by an id they are unknown.
    """
    brokers, topics = live_brokers(request.coordinator), _topics(request)
    is_asked_for_cluster = getattr(request.message, "include_cluster_authorized_operations", False)
    is_asked_for_topics = getattr(request.message, "include_topic_authorized_operations", False)
    of_topic = OF_READABLE_TOPIC if is_asked_for_topics else OPERATIONS_UNKNOWN

    def encoded() -> bytes:
        return hot_responses.metadata(
            request.version,
            brokers,
            cluster_id=request.node.cluster_id,
            controller_id=broker_id_of(request.coordinator.node_id),
            topics=[_described(each, brokers, of_topic) if isinstance(each, _Topic) else each for each in topics],
            authorized_operations=OF_CLUSTER if is_asked_for_cluster else OPERATIONS_UNKNOWN,
        )

    parts = sum(each.partitions if isinstance(each, _Topic) else 1 for each in topics)
    return encoded() if parts <= CONVERTED_AT_ONCE else await asyncio.to_thread(encoded)


class _Topic(NamedTuple):
    """A topic that the client may read, as far as it is described: an older release may have stored more partitions."""

    name: str
    partitions: int


def _broker_fields(broker: Broker) -> Fields:
    return {"node_id": broker.broker_id, "host": broker.host, "port": broker.port}


def _topics(request: KafkaRequest) -> list[_Topic | DescribedTopic]:
    """Return the requested topics, and the errors of those that there are not."""
    known = request.coordinator.metadata_cache.topic_metadata
    requested = request.message.topics
    if requested is None or (request.version == 0 and not requested):
        denied = request.denied_topics(known, Operation.READ)
        return [_found(each, found) for each, found in known.items() if each not in denied]
    by_id = request.node.topic_ids.names(known)
    wanted: dict[tuple[str | None, UUID | None], str | None] = {}
    for each in requested:
        name, topic_id = each.name, getattr(each, "topic_id", None)
        wanted[name, topic_id] = by_id.get(topic_id) if name is None and topic_id is not None else name
    denied = request.denied_topics({named for named in wanted.values() if named}, Operation.READ)
    found: list[_Topic | DescribedTopic] = []
    for (name, topic_id), named in wanted.items():
        if name is not None and name in denied:
            found.append(DescribedTopic(name, None, TOPIC_AUTHORIZATION_FAILED))
        elif named is not None and named in known and named not in denied:
            found.append(_found(named, known[named]))
        else:
            code = UNKNOWN_TOPIC_ID if name is None else _unknown_topic(name)
            shown = "" if name is None and request.version < NULL_TOPIC_NAMES_FROM else name
            found.append(DescribedTopic(shown, topic_id, code))
    return found


def _found(name: str, metadata: TopicMetadata) -> _Topic:
    return _Topic(name, min(metadata.partitions, PARTITION_COUNT_MAX))


def _unknown_topic(name: str) -> int:
    """Return the error of a topic that there is not: clients retry unless there can be none of the name."""
    return UNKNOWN_TOPIC_OR_PARTITION if KAFKA_TOPIC.fullmatch(name) else INVALID_TOPIC


def _described(topic: _Topic, brokers: list[Broker], authorized_operations: int) -> DescribedTopic:
    leaders = leaders_of(topic.name, topic.partitions, brokers)
    return DescribedTopic(topic.name, topic_id_of(topic.name), 0, authorized_operations, leaders)


def leaders_of(topic: str, partitions: int, brokers: list[Broker]) -> list[int]:
    """Return the leader of each partition: the broker with the highest hash of `broker/topic/partition`.

    So a broker that comes or goes moves its own partitions only. The hash of a text continues that of its beginning.
    """
    ids = [each.broker_id for each in brokers]
    beginnings = [zlib.crc32(f"{broker_id}/{topic}/".encode()) for broker_id in ids]
    leaders = []
    for number in range(partitions):
        hashes = [zlib.crc32(b"%d" % number, beginning) for beginning in beginnings]
        leaders.append(ids[hashes.index(max(hashes))])
    return leaders


# -- FindCoordinator ----------------------------------------------------------------------------------


async def find_coordinator(request: KafkaRequest) -> bytes:
    """Return which node owns groups."""
    message = request.message
    is_group = getattr(message, "key_type", GROUP_KEY) == GROUP_KEY
    if request.version >= SEVERAL_KEYS_FROM:
        found = await convert_all(message.coordinator_keys, partial(_coordinator, request, is_group=is_group))
        return await request.encode({"coordinators": found})
    return await request.encode(_coordinator(request, message.key, is_group=is_group))


def _coordinator(request: KafkaRequest, key: str, *, is_group: bool) -> Fields:
    error_code, error_message, broker = 0, "", NO_BROKER
    if is_group:
        try:
            request.authorize("FindCoordinator", key)
            broker = _owner(request.coordinator, key)
        except CoordinatorError as error:
            error_code, error_message = request.failed(error), error.detail
    else:
        error_code, error_message = INVALID_REQUEST, "there are no transactions here, only groups"
    return {**_broker_fields(broker), "key": key, "error_code": error_code, "error_message": error_message or None}


def _owner(coordinator: Coordinator, group_id: str) -> Broker:
    owner = coordinator.find_coordinator(group_id)
    address = owner.listeners.get(LISTENER)
    if owner.node_id is None or address is None:
        raise CoordinatorNotAvailable("the group's shard has no owner with this listener now")
    return _broker(owner.node_id, address)


# -- the cluster ------------------------------------------------------------------------------------


async def describe_cluster(request: KafkaRequest) -> bytes:
    """Return the brokers; controllers, which newer clients may ask for, there are none."""
    endpoint_type = getattr(request.message, "endpoint_type", BROKER_ENDPOINTS)
    if endpoint_type != BROKER_ENDPOINTS:
        code = MISMATCHED_ENDPOINT_TYPE if endpoint_type == CONTROLLER_ENDPOINTS else UNSUPPORTED_ENDPOINT_TYPE
        refusal = {"error_code": code, "error_message": "the listener is one of brokers", "cluster_id": ""}
        return encode(ApiKey.DESCRIBE_CLUSTER, request.version, refusal)
    brokers = [
        {"broker_id": each.broker_id, "host": each.host, "port": each.port}
        for each in live_brokers(request.coordinator)
    ]
    values = {
        "error_message": None,
        "cluster_id": request.node.cluster_id,
        "controller_id": broker_id_of(request.coordinator.node_id),
        "brokers": brokers,
    }
    if request.message.include_cluster_authorized_operations:
        values["cluster_authorized_operations"] = OF_CLUSTER
    return encode(ApiKey.DESCRIBE_CLUSTER, request.version, values)


async def describe_configs(request: KafkaRequest) -> bytes:
    """Return no settings for each resource: tools ask for those of topics and brokers, which Muster does not have.

    Programs learn by an error whether a resource exists.
    """
    topics = request.coordinator.metadata_cache.topic_metadata
    names = {each.resource_name for each in request.message.resources if each.resource_type == TOPIC_RESOURCE}
    denied = request.denied_topics(names, Operation.READ)
    kinds = {each.resource_type for each in request.message.resources}
    brokers = live_brokers(request.coordinator) if kinds & BROKER_RESOURCES else ()
    broker_names = {"", *(str(each.broker_id) for each in brokers)}

    def error_code(kind: int, name: str) -> int:
        if kind == TOPIC_RESOURCE:
            return TOPIC_AUTHORIZATION_FAILED if name in denied else 0 if name in topics else _unknown_topic(name)
        if kind in BROKER_RESOURCES:
            return 0 if name in broker_names else INVALID_REQUEST
        return 0 if kind in OTHER_RESOURCES and name else INVALID_REQUEST

    results: list[Mapping[str, object]] = [
        {
            "error_code": error_code(each.resource_type, each.resource_name),
            "error_message": None,
            "resource_type": each.resource_type,
            "resource_name": each.resource_name,
            "configs": (),
        }
        for each in request.message.resources
    ]
    return await request.encode({"results": results})
