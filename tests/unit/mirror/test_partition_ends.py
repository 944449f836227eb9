"""Ends of the log's partitions: brokers that do not answer leave theirs out."""

from types import SimpleNamespace

import pytest
from aiokafka import TopicPartition  # type: ignore[import-untyped]  # comes without types
from aiokafka.errors import NodeNotReadyError  # type: ignore[import-untyped]  # comes without types
from aiokafka.protocol.offset import OffsetRequest  # type: ignore[import-untyped]  # comes without types

from mirror.partition_ends import READ_UNCOMMITTED, known_ends

pytestmark = pytest.mark.anyio

TOPIC = "log"
NOT_LEADER = 6


class FakeClient:
    """A client of two brokers, of which the second is away."""

    def __init__(self) -> None:
        self.cluster = self
        self.isolation_levels: list[int] = []

    def leader_for_partition(self, partition: TopicPartition) -> int | None:
        """Return the broker that leads a partition, as the metadata say; -1: none, None: it is not known."""
        return {0: 1, 1: 2, 2: -1, 3: None, 4: 1}[partition.partition]

    async def send(self, broker: int, request: OffsetRequest) -> SimpleNamespace:
        """Answer a ListOffsets request."""
        if broker != 1:
            raise NodeNotReadyError
        built = request.prepare({request.API_KEY: (0, 3)})
        self.isolation_levels.append(built.isolation_level)
        [(topic, numbers)] = built.topics
        assert numbers == [(0, -1), (4, -1)]
        answers = [(0, 0, 17), (4, NOT_LEADER, -1)]
        partitions = [dict(zip(("partition", "error_code", "offset"), each, strict=True)) for each in answers]
        return SimpleNamespace(to_object=lambda: {"topics": [{"topic": topic, "partitions": partitions}]})


async def test_ends_are_those_that_brokers_answer() -> None:
    client = FakeClient()

    assert await known_ends(client, TOPIC, range(5)) == {0: 17}
    assert client.isolation_levels == [READ_UNCOMMITTED]
