"""What the agent's tests share: a fake coordinator, agents that are closed in the end, and a diary of callbacks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from agent import ConsumerAgent, TopicPartition
from tests.agent.fake_coordinator import FakeCoordinator
from tests.agent.manual_clock import ManualClock
from tests.waiting import PATIENCE_S

QUICK: dict[str, Any] = {
    "retry_backoff_ms": 1,
    "retry_backoff_max_ms": 5,
    "request_timeout_ms": 1_000 * PATIENCE_S,
}
"""Settings for tests that pass through failures: the real pauses, only short."""


@dataclass
class Diary:
    """What the callbacks were told, in order: ("assigned", [0, 1]) and so on."""

    lines: list[tuple[str, list[int]]] = field(default_factory=list)

    def callbacks(self) -> dict[str, Callable[[tuple[TopicPartition, ...]], None]]:
        return {f"on_{what}": self._writer(what) for what in ("assigned", "revoked", "lost")}

    def count(self, what: str) -> int:
        return sum(line[0] == what for line in self.lines)

    def until_assigned(self, agent: ConsumerAgent, times: int) -> None:
        """Poll, and wait in between, until on_assigned has been called so often."""
        while self.count("assigned") < times:
            agent.poll(timeout_s=0.05)
            agent.wait(timeout_s=0.05)

    def _writer(self, what: str) -> Callable[[tuple[TopicPartition, ...]], None]:
        return lambda partitions: self.lines.append((what, [each.partition for each in partitions]))


AgentMaker = Callable[..., ConsumerAgent]


@pytest.fixture
def coordinator() -> Iterator[FakeCoordinator]:
    fake = FakeCoordinator()
    fake.start()
    yield fake
    fake.stop()


@pytest.fixture
def other_node() -> Iterator[FakeCoordinator]:
    fake = FakeCoordinator()
    fake.start()
    yield fake
    fake.stop()


@pytest.fixture
def diary() -> Diary:
    return Diary()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def make_agent(coordinator: FakeCoordinator, other_node: FakeCoordinator) -> Iterator[AgentMaker]:
    """Make agents of the group "billing" on the fake coordinator; each is closed when the test is over."""
    made: list[ConsumerAgent] = []

    def make(base_url: str | list[str] | None = None, group_id: str = "billing", **options: Any) -> ConsumerAgent:  # noqa: ANN401  # whatever an agent takes
        topics = options.pop("topics", ("orders",))
        made.append(ConsumerAgent(base_url or coordinator.url, group_id, topics, **(QUICK | options)))
        return made[-1]

    yield make
    for agent in made:
        agent.close(timeout_s=0.2)
    left = [thread.name for thread in threading.enumerate() if thread.name.startswith("consumer-billing")]
    assert left == []


@pytest.fixture
def joined(make_agent: AgentMaker) -> AgentMaker:
    """Make an agent, and let it join."""

    def make(**options: Any) -> ConsumerAgent:  # noqa: ANN401  # whatever an agent takes
        agent = make_agent(**options)
        agent.poll(PATIENCE_S)
        assert agent.generation > 0
        return agent

    return make
