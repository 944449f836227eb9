"""Reader of the states of a Kafka cluster's groups: the ListGroups request of version 4, which aiokafka does not have.

Source: `ListGroupsRequest.json` and `ListGroupsResponse.json` of Kafka's module clients.
"""

import asyncio
from collections.abc import Sequence
from typing import Final, Self

from aiokafka.client import AIOKafkaClient  # type: ignore[import-untyped]  # comes without types
from aiokafka.errors import KafkaError, for_code  # type: ignore[import-untyped]  # comes without types
from aiokafka.protocol.api import Request, RequestStruct, Response  # type: ignore[import-untyped]  # comes without types
from aiokafka.protocol.types import (  # type: ignore[import-untyped]  # comes without types
    CompactArray,
    CompactString,
    Int16,
    Int32,
    Schema,
    TaggedFields,
)

from coordinator_core.protocol.states import COMPLETING, PREPARING, GroupState
from mirror.kafka_log import KafkaConnection, KafkaUnavailable, reason_of

NO_ERROR: Final = 0


class KafkaGroups:
    """A connection to a cluster."""

    def __init__(self, connection: KafkaConnection) -> None:
        self._client = AIOKafkaClient(**connection.options())

    async def __aenter__(self) -> Self:
        """Connect.

        Raises:
            KafkaUnavailable: the cluster cannot be reached, or refuses.
        """
        try:
            await self._client.bootstrap()
        except (KafkaError, OSError) as failure:
            await self._client.close()
            raise KafkaUnavailable(reason_of(failure)) from failure
        return self

    async def __aexit__(self, *_: object) -> None:
        """Disconnect."""
        await self._client.close()

    async def rebalancing(self) -> dict[str, GroupState]:
        """Return the groups in PreparingRebalance or CompletingRebalance, by one request to each broker.

        Raises:
            KafkaUnavailable: a broker cannot be reached, refuses, is loading groups, or is older than Kafka 2.6.
        """
        request = _ListGroups((PREPARING, COMPLETING))
        brokers = [broker.nodeId for broker in self._client.cluster.brokers()]
        try:
            responses = await asyncio.gather(*(self._client.send(broker, request) for broker in brokers))
        except NotImplementedError as failure:  # aiokafka's error where the broker does not have the version
            raise KafkaUnavailable("a broker is older than Kafka 2.6, and does not list groups by state") from failure
        except (KafkaError, OSError) as failure:
            raise KafkaUnavailable(reason_of(failure)) from failure
        states: dict[str, GroupState] = {}
        for response in responses:
            if response.error_code != NO_ERROR:
                raise KafkaUnavailable(reason_of(for_code(response.error_code)()))
            for group in response.to_object()["groups"]:
                states[group["group_id"]] = GroupState(group["state"])
        return states


class _ListGroupsResponse(Response):  # type: ignore[misc]  # aiokafka has no types
    API_KEY = 16
    API_VERSION = 4
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("error_code", Int16),
        (
            "groups",
            CompactArray(
                ("group_id", CompactString()),
                ("protocol_type", CompactString()),
                ("state", CompactString()),
                ("tags", TaggedFields),
            ),
        ),
        ("tags", TaggedFields),
    )


class _ListGroupsRequest(RequestStruct):  # type: ignore[misc]  # aiokafka has no types
    FLEXIBLE_VERSION = True
    API_KEY = 16
    API_VERSION = 4
    RESPONSE_TYPE = _ListGroupsResponse
    SCHEMA = Schema(("states", CompactArray(CompactString())), ("tags", TaggedFields))


class _ListGroups(Request[_ListGroupsRequest]):  # type: ignore[misc]  # aiokafka has no types
    API_KEY = 16

    def __init__(self, states: Sequence[str]) -> None:
        self._states = list(states)

    def build(self, request_struct_class: type[_ListGroupsRequest]) -> _ListGroupsRequest:
        return request_struct_class(self._states, {})
