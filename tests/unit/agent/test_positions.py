"""Positions: what another thread may read while the consumer's own changes it."""

from __future__ import annotations

from typing import NamedTuple

from agent import TopicPartition
from agent.core.positions import Positions


class Interrupted(NamedTuple):
    """The state of a partition during whose reading another thread adds a partition."""

    positions: Positions

    @property
    def is_paused(self) -> bool:
        self.positions._states[TopicPartition("orders", 9)] = self  # type: ignore[assignment]  # a fake
        return True


def test_paused_partitions_can_be_read_while_partitions_are_added() -> None:
    positions, first = Positions(), TopicPartition("orders", 0)
    positions._states[first] = Interrupted(positions)  # type: ignore[assignment]  # a fake

    assert positions.paused() == {first}
