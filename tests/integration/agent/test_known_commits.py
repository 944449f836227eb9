"""What an agent believes to be committed, which reports of log end offsets repeat and auto-commit leaves out."""

from __future__ import annotations

import threading

import pytest

from agent import ConsumerAgent, RetryError, TopicPartition
from tests.integration.agent.agents import AgentMaker
from tests.support.fake_coordinator import Drop, FakeCoordinator, Hold
from tests.support.manual_clock import ManualClock
from tests.support.waiting import PATIENCE_S

ZERO = TopicPartition("orders", 0)


def committed(coordinator: FakeCoordinator) -> list[int]:
    """Return the offsets of every commit of the partition, in order."""
    return [each["offset"] for body in coordinator.bodies("commit") for each in body["offsets"]]


def idle(agent: ConsumerAgent, clock: ManualClock) -> None:
    """Poll for two minutes without a commit, so that the agent reports log ends if it has what to repeat."""
    for _ in range(2):
        clock.advance(60_000)
        agent.poll()
    agent.close()


def test_report_repeats_the_last_commit_and_not_an_asynchronous_one_before_it(
    coordinator: FakeCoordinator, joined: AgentMaker, clock: ManualClock
) -> None:
    agent = joined(end_offset_of=lambda _: 100, clock=clock)
    agent.commit({ZERO: 50}, asynchronous=True)
    agent.commit({ZERO: 60})
    idle(agent, clock)

    assert committed(coordinator) == [50, 60, 60]


def test_report_repeats_no_offset_before_a_commit_without_an_answer(
    coordinator: FakeCoordinator, joined: AgentMaker, clock: ManualClock
) -> None:
    agent = joined(end_offset_of=lambda _: 100, clock=clock)
    agent.commit({ZERO: 50})
    coordinator.next("commit", Drop(is_handled=True))
    with pytest.raises(RetryError):
        agent.commit({ZERO: 60}, timeout_s=0)
    idle(agent, clock)

    assert coordinator.offsets[ZERO]["offset"] == 60


def test_auto_commit_stores_a_position_again_that_a_commit_without_an_answer_may_have_replaced(
    coordinator: FakeCoordinator, joined: AgentMaker, clock: ManualClock
) -> None:
    agent = joined(enable_auto_commit=True, clock=clock)
    agent.seek(ZERO, 50)
    agent.commit()
    coordinator.next("commit", Drop(is_handled=True))
    with pytest.raises(RetryError):
        agent.commit({ZERO: 60}, timeout_s=0)
    agent.close()

    assert coordinator.offsets[ZERO]["offset"] == 50


@pytest.mark.parametrize("leave_unanswered", ["join", "commit"])
def test_poll_sleeps_while_a_due_report_cannot_be_made(
    coordinator: FakeCoordinator, make_agent: AgentMaker, clock: ManualClock, leave_unanswered: str
) -> None:
    gate = threading.Event()
    agent = make_agent(end_offset_of=lambda _: 100, clock=clock)
    coordinator.next(leave_unanswered, Hold(gate))
    if leave_unanswered == "commit":
        agent.poll(PATIENCE_S)
        agent.pause(agent.assignment())
        agent.commit({ZERO: 50}, asynchronous=True)
    clock.advance(60_000)
    caller = threading.Thread(target=lambda: agent.poll(timeout_s=20), name="caller")
    caller.start()
    try:
        assert clock.wait_for_sleeper("caller") == 20_000
    finally:
        clock.advance(20_000)
        caller.join(PATIENCE_S)
        gate.set()
