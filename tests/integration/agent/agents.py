"""Settings of test agents, and a recorder of their callbacks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent import Assignor, ConsumerAgent, Member, TopicPartition
from tests.support.fake_coordinator import FakeCoordinator, Problem
from tests.support.waiting import PATIENCE_S

QUICK: dict[str, Any] = {
    "retry_backoff_ms": 1,
    "retry_backoff_max_ms": 5,
    "request_timeout_ms": 1_000 * PATIENCE_S,
}
"""Settings for tests of failures: the real pauses, shortened."""


@dataclass
class CallbackLog:
    """The calls of the callbacks, in order: ("assigned", [0, 1]) and so on."""

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


def nothing_to_decide(_: Mapping[str, int], members: Sequence[Member]) -> dict[str, list[TopicPartition]]:
    return {member.member_id: [] for member in members}


PATIENT = Assignor("patient", nothing_to_decide, is_cooperative=True)


def orders(*partitions: int) -> list[dict[str, Any]]:
    return [{"topic": "orders", "partitions": list(partitions)}]


def rebalance(coordinator: FakeCoordinator, agent: ConsumerAgent, callback_log: CallbackLog, *partitions: int) -> None:
    """Make another member the leader, which assigns these next, and complete the rebalance."""
    coordinator.assigned = orders(*partitions)
    coordinator.next("heartbeat", REBALANCE)
    callback_log.until_assigned(agent, callback_log.count("assigned") + 1)


def poll_on(agent: ConsumerAgent) -> None:
    """Poll whenever there is work, until poll() raises."""
    while agent.wait(PATIENCE_S):
        agent.poll()


REBALANCE = Problem("REBALANCE_IN_PROGRESS", 409, "rejoin")
