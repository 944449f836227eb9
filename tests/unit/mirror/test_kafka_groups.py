"""Reader of a cluster's groups: every broker that there is now is asked."""

from typing import Any

import pytest
from aiokafka.cluster import ClusterMetadata  # type: ignore[import-untyped]  # comes without types
from aiokafka.errors import (  # type: ignore[import-untyped]  # comes without types
    GroupAuthorizationFailedError,
    GroupCoordinatorNotAvailableError,
    KafkaError,
)
from aiokafka.protocol.metadata import MetadataRequest, MetadataResponse_v5  # type: ignore[import-untyped]  # likewise

from mirror import kafka_groups
from mirror.group_requests import ListGroups
from mirror.kafka_groups import KafkaGroups
from mirror.kafka_log import KafkaConnection

pytestmark = pytest.mark.anyio


class FakeClient:
    """A client of a cluster whose brokers come and go; it learns them from answers about metadata."""

    def __init__(self, **_: object) -> None:
        self.groups: dict[int, list[str]] = {}
        """Broker → the groups that it coordinates."""
        self.lookup_failures: dict[str, KafkaError] = {}
        """Group → why its coordinator is not found."""
        self.cluster = ClusterMetadata()

    async def bootstrap(self) -> None:
        """Connect to a broker, and learn the others."""
        self.cluster.update_metadata(self._metadata())

    async def close(self) -> None:
        """Disconnect."""

    def get_random_node(self) -> int:
        """Return a broker that is known."""
        return min(self.groups)

    async def send(self, broker: int, request: Any) -> Any:  # noqa: ANN401 - aiokafka has no types
        """Return the answer of a broker."""
        if isinstance(request, MetadataRequest):
            return self._metadata()
        assert isinstance(request, ListGroups)
        found = [(group_id, "consumer", "Stable", "classic", dict[int, bytes]()) for group_id in self.groups[broker]]
        return request.prepare({16: (5, 5)}).RESPONSE_TYPE(0, 0, found, {})

    async def coordinator_lookup(self, _: int, group_id: str) -> int:
        """Return the coordinator of a group."""
        if group_id in self.lookup_failures:
            raise self.lookup_failures[group_id]
        return min(self.groups)

    def _metadata(self) -> Any:  # noqa: ANN401 - likewise
        brokers = [(broker, f"kafka-{broker}", 9092, None) for broker in self.groups]
        return MetadataResponse_v5(0, brokers, "cluster", min(self.groups), [])


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> FakeClient:
    fake = FakeClient()

    def client_of(**_: Any) -> FakeClient:  # noqa: ANN401 - as aiokafka's
        return fake

    monkeypatch.setattr(kafka_groups, "AIOKafkaClient", client_of)
    return fake


async def test_broker_that_is_new_is_asked_for_the_groups_that_move_to_it(client: FakeClient) -> None:
    """Else a poll misses them, and the mirror takes them for deleted."""
    client.groups = {1: ["a", "b"]}
    async with KafkaGroups(KafkaConnection(bootstrap_servers="kafka-1:9092")) as groups:
        client.groups = {1: ["a"], 2: ["b"]}

        assert {(each.group_id, each.broker) for each in await groups.listed()} == {("a", 1), ("b", 2)}


async def test_groups_without_a_coordinator_are_known(client: FakeClient) -> None:
    client.groups = {1: []}
    client.lookup_failures = {"b": GroupCoordinatorNotAvailableError(), "denied": GroupAuthorizationFailedError()}
    async with KafkaGroups(KafkaConnection(bootstrap_servers="kafka-1:9092")) as groups:
        assert await groups.coordinated(["a", "b", "denied"]) == {"a", "denied"}
