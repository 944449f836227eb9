"""The assignor's on_assignment hook: called with each new assignment, between on_revoked and on_assigned."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pytest

from agent import Assignor, ConsumerAgent, Member, TopicPartition
from tests.integration.agent.agents import AgentMaker, CallbackLog, orders, rebalance
from tests.support.fake_coordinator import FakeCoordinator
from tests.support.waiting import PATIENCE_S

Share = list[TopicPartition]


@dataclass
class Remembering:
    """An assignor that stores the last assignment of its member, and sends it with the next join."""

    callback_log: CallbackLog
    is_cooperative: bool = False
    seen: list[tuple[list[int], int]] = field(default_factory=list)

    def assign(self, counts: Mapping[str, int], members: Sequence[Member]) -> dict[str, Share]:
        everything = [TopicPartition("orders", number) for number in range(counts["orders"])]
        return {member.member_id: everything if number == 0 else [] for number, member in enumerate(members)}

    def user_data(self, _: Sequence[TopicPartition], generation: int) -> bytes:
        return bytes(self.seen[-1][0] if self.seen else [])

    def on_assignment(self, partitions: Sequence[TopicPartition], generation: int) -> None:
        numbers = [each.partition for each in partitions]
        self.seen.append((numbers, generation))
        self.callback_log.lines.append(("assignment", numbers))

    def assignor(self) -> Assignor:
        return Assignor("range", self.assign, self.is_cooperative, self.user_data, self.on_assignment)


def test_leaders_hook_runs_before_on_assigned(joined: AgentMaker, callback_log: CallbackLog) -> None:
    own = Remembering(callback_log)
    agent = joined(assignors=[own.assignor()], **callback_log.callbacks())

    assert own.seen == [([0, 1, 2], agent.generation)]
    assert callback_log.lines == [("assignment", [0, 1, 2]), ("assigned", [0, 1, 2])]


@pytest.mark.parametrize(
    ("is_cooperative", "later"),
    [
        (False, [("revoked", [0, 1]), ("assignment", [1, 2]), ("assigned", [1, 2])]),
        (True, [("revoked", [0]), ("assignment", [1, 2]), ("assigned", [2])]),
    ],
    ids=["eager", "cooperative"],
)
def test_followers_hook_gets_the_whole_assignment_after_revocation(
    coordinator: FakeCoordinator,
    joined: AgentMaker,
    callback_log: CallbackLog,
    is_cooperative: bool,
    later: list[tuple[str, list[int]]],
) -> None:
    coordinator.heartbeat_interval_ms = 5
    coordinator.leader, coordinator.assigned = "other-member", orders(0, 1)
    own = Remembering(callback_log, is_cooperative)
    agent = joined(assignors=[own.assignor()], **callback_log.callbacks())
    rebalance(coordinator, agent, callback_log, 1, 2)

    assert callback_log.lines[:2] == [("assignment", [0, 1]), ("assigned", [0, 1])]
    assert callback_log.lines[2:5] == later


def test_assignor_sends_its_last_assignment_with_the_next_join(
    coordinator: FakeCoordinator, joined: AgentMaker, callback_log: CallbackLog
) -> None:
    coordinator.heartbeat_interval_ms = 5
    coordinator.leader, coordinator.assigned = "other-member", orders(0, 1)
    agent = joined(assignors=[Remembering(callback_log).assignor()], **callback_log.callbacks())
    rebalance(coordinator, agent, callback_log, 1)

    sent = [b64decode(body["protocols"][0]["metadata"]["user_data"]) for body in coordinator.bodies("join")]
    assert (sent[0], sent[-1]) == (b"", bytes([0, 1]))


def test_only_the_assignor_that_was_chosen_is_called(joined: AgentMaker, callback_log: CallbackLog) -> None:
    other = Remembering(callback_log).assignor()
    joined(
        assignors=["range", Assignor("other", other.assign, on_assignment=other.on_assignment)],
        **callback_log.callbacks(),
    )

    assert callback_log.lines == [("assigned", [0, 1, 2])]


def test_raising_hook_does_not_prevent_the_assignment(make_agent: AgentMaker, callback_log: CallbackLog) -> None:
    def refuse(partitions: Sequence[TopicPartition], generation: int) -> None:
        raise LookupError("no state for this assignment")

    assignor = Assignor("range", Remembering(callback_log).assign, on_assignment=refuse)
    agent = make_agent(assignors=[assignor], **callback_log.callbacks())
    with pytest.raises(LookupError, match="no state"):
        agent.poll(PATIENCE_S)

    assert callback_log.lines == [("assigned", [0, 1, 2])]
    assert sorted(each.partition for each in agent.poll()) == [0, 1, 2]


def test_hook_that_closes_the_agent_prevents_the_assignment(make_agent: AgentMaker, callback_log: CallbackLog) -> None:
    agents: list[ConsumerAgent] = []
    called: list[int] = []

    def leave(partitions: Sequence[TopicPartition], generation: int) -> None:
        called.append(generation)
        agents[0].unsubscribe()

    assignor = Assignor("range", Remembering(callback_log).assign, on_assignment=leave)
    agents.append(make_agent(assignors=[assignor], **callback_log.callbacks()))
    while not called:
        agents[0].poll(timeout_s=0.05)

    assert callback_log.lines == []
    assert agents[0].assignment() == frozenset()
