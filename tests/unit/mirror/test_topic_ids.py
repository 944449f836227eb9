"""Names of topics by their ids: one broker that is away is no reason to stop."""

from types import SimpleNamespace
from uuid import UUID

import pytest
from aiokafka.errors import NodeNotReadyError  # type: ignore[import-untyped]  # comes without types

from mirror.topic_ids import NO_ERROR, names_of

pytestmark = pytest.mark.anyio

ORDERS, UNKNOWN = UUID(int=1), UUID(int=2)
UNKNOWN_TOPIC_ID = 100


class FakeClient:
    """A client of brokers of which some are away."""

    def __init__(self, brokers: int, away: set[int]) -> None:
        self.cluster = SimpleNamespace(brokers=lambda: [SimpleNamespace(nodeId=number) for number in range(brokers)])
        self._away = away

    async def send(self, broker: int, _: object) -> SimpleNamespace:
        """Answer a Metadata request."""
        if broker in self._away:
            raise NodeNotReadyError
        answers = [(ORDERS, "orders", NO_ERROR), (UNKNOWN, None, UNKNOWN_TOPIC_ID)]
        topics = [dict(zip(("topic_id", "name", "error_code"), each, strict=True)) for each in answers]
        return SimpleNamespace(to_object=lambda: {"topics": topics})


async def test_names_are_those_of_a_broker_that_answers() -> None:
    assert await names_of(FakeClient(2, away={0}), [ORDERS, UNKNOWN]) == {ORDERS: "orders"}


async def test_there_are_none_if_no_broker_answers() -> None:
    with pytest.raises(NodeNotReadyError):
        await names_of(FakeClient(2, away={0, 1}), [ORDERS])
