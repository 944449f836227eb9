"""Reader of a Kafka cluster's groups: their states, members, assignments and committed offsets."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Sequence
from itertools import groupby
from typing import Any, Final, Self

from aiokafka.client import AIOKafkaClient, CoordinationType  # type: ignore[import-untyped]  # comes without types
from aiokafka.errors import (  # type: ignore[import-untyped]  # comes without types
    GroupAuthorizationFailedError,
    KafkaError,
    for_code,
)
from aiokafka.protocol.metadata import MetadataRequest  # type: ignore[import-untyped]  # comes without types

from coordinator_core.protocol.consumer_protocol import CONSUMER
from coordinator_core.protocol.states import COMPLETING, PREPARING, STABLE, GroupState
from mirror.group_requests import DescribeConsumerGroups, DescribeGroups, FetchOffsets, ListGroups
from mirror.kafka_log import KafkaConnection, KafkaUnavailable, reason_of
from mirror.polled_groups import (
    CONSUMER_TYPE,
    NO_ERROR,
    ListedGroup,
    Offsets,
    PolledGroup,
    classic_members,
    committed_offsets,
    consumer_members,
    storable,
)
from mirror.record_reader import is_key

GROUPS_MAX: Final = 100
"""How many groups one request describes, or fetches the offsets of."""
GONE: Final = frozenset({16, 69})
"""NOT_COORDINATOR and GROUP_ID_NOT_FOUND: the group has moved or is deleted, and the next poll shows it."""
DENIED: Final = 30
"""GROUP_AUTHORIZATION_FAILED: a user that may describe the cluster lists groups that it may not describe."""
CLASSIC_TYPE: Final = "classic"


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
        return {each.group_id: GroupState(each.state) for each in await self.listed((PREPARING, COMPLETING))}

    async def listed(self, states: Sequence[GroupState] = ()) -> list[ListedGroup]:
        """Return the groups in these states, or all, by one request to each broker.

        Raises:
            KafkaUnavailable: as `rebalancing`.
        """
        brokers = await self._brokers()
        answers = await asyncio.gather(*(self._send(broker, ListGroups(states)) for broker in brokers))
        listed: list[ListedGroup] = []
        for broker, answer in zip(brokers, answers, strict=True):
            _check(answer["error_code"])
            listed += [
                ListedGroup(
                    each["group_id"],
                    broker,
                    each.get("group_type", CLASSIC_TYPE),
                    storable(each["protocol_type"]),
                    each["state"],
                )
                for each in answer["groups"]
            ]
        return listed

    async def coordinated(self, group_ids: Collection[str]) -> set[str]:
        """Return those of these groups that have a coordinator, as far as brokers answer.

        The partition of `__consumer_offsets` of a group without one has no leader, so no broker lists it.
        """
        lookups = [self._client.coordinator_lookup(CoordinationType.GROUP, group_id) for group_id in group_ids]
        found: set[str] = set()
        for group_id, answer in zip(group_ids, await asyncio.gather(*lookups, return_exceptions=True), strict=True):
            if isinstance(answer, int | GroupAuthorizationFailedError):
                found.add(group_id)
            elif not isinstance(answer, KafkaError | OSError):
                raise answer
        return found

    async def _brokers(self) -> list[int]:
        """Return the brokers that there are now: one that was added or has started again may have any group."""
        cluster = self._client.cluster
        cluster.update_metadata(await self._response(self._client.get_random_node(), MetadataRequest([])))
        return [broker.nodeId for broker in cluster.brokers()]

    async def described(self, groups: Sequence[ListedGroup]) -> dict[str, PolledGroup]:
        """Return classic groups that are Stable, and consumer groups whose target assignments are computed.

        Groups with a member whose id cannot be stored are left out.

        Raises:
            KafkaUnavailable: a broker cannot be reached, or refuses.
        """
        found: dict[str, PolledGroup] = {}
        classic = [each for each in groups if each.group_type != CONSUMER_TYPE]
        async for each in self._each(classic, DescribeGroups):
            if each["state"] == STABLE:
                members = classic_members(each["members"])
                found[each["group_id"]] = PolledGroup(
                    storable(each["protocol_type"]), storable(each["protocol"]), members
                )
        consumer = [each for each in groups if each.group_type == CONSUMER_TYPE]
        async for each in self._each(consumer, DescribeConsumerGroups):
            if each["epoch"] == each["assignment_epoch"] or not each["members"]:
                members = consumer_members(each["members"])
                found[each["group_id"]] = PolledGroup(CONSUMER, each["assignor"], members, each["epoch"])
        return {
            group_id: each
            for group_id, each in found.items()
            if all(is_key(member.member_id) for member in each.members)
        }

    async def offsets(self, groups: Iterable[ListedGroup]) -> dict[str, Offsets]:
        """Return the committed offsets of groups; those that are gone, or may not be described, are left out.

        Raises:
            KafkaUnavailable: a broker cannot be reached, or refuses.
        """
        found: dict[str, Offsets] = {}
        async for each in self._each(groups, FetchOffsets):
            found[each["group_id"]] = committed_offsets(each["topics"])
        return found

    async def _each(
        self, groups: Iterable[ListedGroup], request: Callable[[Sequence[str]], Any]
    ) -> AsyncIterator[dict[str, Any]]:
        """Yield the answers about groups that are not `GONE` or `DENIED`, at most `GROUPS_MAX` groups in a request."""
        for broker, some in groupby(sorted(groups, key=lambda each: each.broker), key=lambda each: each.broker):
            group_ids = [each.group_id for each in some]
            for place in range(0, len(group_ids), GROUPS_MAX):
                answer = await self._send(broker, request(group_ids[place : place + GROUPS_MAX]))
                for each in answer["groups"]:
                    if each["error_code"] not in GONE | {DENIED}:
                        _check(each["error_code"])
                        yield each

    async def _send(self, broker: int, request: Any) -> dict[str, Any]:  # noqa: ANN401 - aiokafka has no types
        answer: dict[str, Any] = (await self._response(broker, request)).to_object()
        return answer

    async def _response(self, broker: int, request: Any) -> Any:  # noqa: ANN401 - likewise
        try:
            return await self._client.send(broker, request)
        except NotImplementedError as failure:  # aiokafka's error where the broker does not have the version
            raise KafkaUnavailable(f"a broker is too old for this {type(request).__name__}") from failure
        except (KafkaError, OSError) as failure:
            raise KafkaUnavailable(reason_of(failure)) from failure


def _check(error_code: int) -> None:
    if error_code != NO_ERROR:
        raise KafkaUnavailable(reason_of(for_code(error_code)()))
