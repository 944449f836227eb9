"""Members of groups on a Kafka broker, over its own protocol."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, Self
from uuid import uuid4

from bench import kafka_wire
from bench.channel import Channel
from bench.group_members import REBALANCE_TIMEOUT_MS, SESSION_TIMEOUT_MS
from coordinator_core.protocol.consumer_protocol import Assignment, Subscription, write_assignment, write_subscription

TOPIC: Final = "orders"
SUBSCRIPTION: Final = write_subscription(Subscription((TOPIC,)))
NO_PARTITIONS: Final = write_assignment(Assignment(()))
COORDINATOR_LOADING: Final = {14, 15, 16}
"""Errors while the coordinator of a group starts: COORDINATOR_LOAD_IN_PROGRESS, …_NOT_AVAILABLE, NOT_COORDINATOR."""
RETRY_S: Final = 0.1


class KafkaMember:
    """A member with its own connection."""

    def __init__(self, url: str, channel: Channel, group_id: str) -> None:
        self.url = url
        self.group_id = group_id
        self.member_id = ""
        self.leader_id = ""
        self.generation = -1
        self._channel = channel

    @classmethod
    async def connected(cls, url: str, group_id: str) -> Self:
        """Open the connection of a member."""
        return cls(url, await Channel.connected(url, kafka_wire.is_complete), group_id)

    @property
    def identity(self) -> tuple[str, int, str]:
        """The group, the generation and the member id, as requests name them."""
        return self.group_id, self.generation, self.member_id

    async def join(self) -> None:
        """Join, and keep the response."""
        timeouts = (SESSION_TIMEOUT_MS, REBALANCE_TIMEOUT_MS)
        request = kafka_wire.join_group(self.group_id, self.member_id, "range", SUBSCRIPTION, *timeouts)
        joined = kafka_wire.read_joined(await self._channel.ask(request))
        while joined.error in COORDINATOR_LOADING:
            await asyncio.sleep(RETRY_S)
            joined = kafka_wire.read_joined(await self._channel.ask(request))
        assert joined.error == kafka_wire.NO_ERROR, joined
        self.member_id, self.leader_id, self.generation = joined.member_id, joined.leader_id, joined.generation

    async def sync(self, member_ids: Sequence[str]) -> None:
        """Sync, with empty assignments for the members."""
        assignments = [(each, NO_PARTITIONS) for each in member_ids]
        request = kafka_wire.sync_group(*self.identity, assignments)
        error = kafka_wire.read_error(await self._channel.ask(request))
        assert error == kafka_wire.NO_ERROR, error

    def close(self) -> None:
        """Close the connection; the broker keeps the member until its session ends."""
        self._channel.close()


async def join_groups(url_of: Callable[[str], str], count: int) -> list[KafkaMember]:
    """Create Stable groups of one member each; `url_of` returns the coordinator of a group."""
    name = f"bench-{uuid4().hex[:8]}"
    names = [f"{name}-{number}" for number in range(count)]
    members = [await KafkaMember.connected(url_of(each), each) for each in names]
    await asyncio.gather(*(member.join() for member in members))
    await asyncio.gather(*(member.sync([member.member_id]) for member in members))
    for member in members:
        member.close()
    return members
