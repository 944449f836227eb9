"""Callbacks that call the agent or close it; no partition is passed to two callbacks."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from agent import AgentClosed, ConsumerAgent, RequestError, TopicPartition
from tests.integration.agent.agents import PATIENT, AgentMaker, CallbackLog, orders, poll_on
from tests.support.fake_coordinator import FakeCoordinator, Problem, numbers
from tests.support.manual_clock import ManualClock
from tests.support.waiting import PATIENCE_S

UNKNOWN = Problem("UNKNOWN_MEMBER_ID", 404, "rejoin")

LEAVING: dict[str, Callable[[ConsumerAgent], object]] = {
    "close": lambda agent: agent.close(),
    "unsubscribe": lambda agent: agent.unsubscribe(),
}


def agent_calling(
    joined: AgentMaker, callback_log: CallbackLog, what: str, call: Callable[[ConsumerAgent], object], **options: object
) -> ConsumerAgent:
    """Return a member whose callback of this name calls this function after recording its call."""
    agents: list[ConsumerAgent] = []

    def write_and_call(partitions: tuple[TopicPartition, ...]) -> None:
        callback_log.callbacks()[what](partitions)
        call(agents[0])

    agents.append(joined(**(callback_log.callbacks() | {what: write_and_call}), **options))
    return agents[0]


def test_callback_that_returns_a_coroutine_is_no_silent_nothing(joined: AgentMaker) -> None:
    async def later() -> None:
        """Do nothing."""

    with pytest.raises(TypeError, match="returned a coroutine, which is not awaited here"):
        joined(on_assigned=lambda _: later())


@pytest.mark.parametrize("leaving", LEAVING.values(), ids=LEAVING.keys())
@pytest.mark.parametrize("again", LEAVING.values(), ids=LEAVING.keys())
def test_unsubscribe_in_on_revoked_revokes_and_leaves_once(
    coordinator: FakeCoordinator,
    joined: AgentMaker,
    callback_log: CallbackLog,
    leaving: Callable[[ConsumerAgent], object],
    again: Callable[[ConsumerAgent], object],
) -> None:
    leaving(agent_calling(joined, callback_log, "on_revoked", again))

    assert callback_log.lines == [("assigned", [0, 1, 2]), ("revoked", [0, 1, 2])]
    assert coordinator.count("leave") == 1
    assert coordinator.member_id == ""


@pytest.mark.parametrize("leaving", LEAVING.values(), ids=LEAVING.keys())
def test_member_leaving_after_losing_everything_is_notified_once(
    coordinator: FakeCoordinator,
    joined: AgentMaker,
    callback_log: CallbackLog,
    leaving: Callable[[ConsumerAgent], object],
) -> None:
    coordinator.heartbeat_interval_ms = 5
    agent = agent_calling(joined, callback_log, "on_lost", leaving)
    coordinator.next("heartbeat", UNKNOWN)
    assert agent.wait(PATIENCE_S)
    joins = coordinator.count("join")
    with pytest.raises(AgentClosed) if leaving is LEAVING["close"] else pytest.raises(RequestError):
        agent.poll()
        agent.poll()

    assert callback_log.lines == [("assigned", [0, 1, 2]), ("lost", [0, 1, 2])]
    assert coordinator.count("join") == joins
    assert agent.assignment() == frozenset()


def test_close_in_eager_revocation_does_not_rejoin(
    coordinator: FakeCoordinator, joined: AgentMaker, callback_log: CallbackLog
) -> None:
    agent = agent_calling(joined, callback_log, "on_revoked", ConsumerAgent.close)
    joins = coordinator.count("join")
    agent.subscribe(["orders", "refunds"])
    with pytest.raises(AgentClosed):
        agent.poll()

    assert callback_log.lines == [("assigned", [0, 1, 2]), ("revoked", [0, 1, 2])]
    assert (coordinator.count("join"), coordinator.count("leave")) == (joins, 1)


def test_close_in_a_revocation_of_many_partitions_is_quick(coordinator: FakeCoordinator, joined: AgentMaker) -> None:
    took_s: list[float] = []

    def close(_: object) -> None:
        began_s = time.process_time()
        agent.close()
        took_s.append(time.process_time() - began_s)

    coordinator.topics["orders"]["partitions"] = 40_000
    agent = joined(on_revoked=close)
    agent.subscribe(["orders", "refunds"])
    with pytest.raises(AgentClosed):
        agent.poll(PATIENCE_S)

    assert took_s[0] < 2, "it takes some hundredths of a second; partitions are not compared with each other"


def test_close_in_cooperative_revocation_revokes_the_rest(
    coordinator: FakeCoordinator, joined: AgentMaker, callback_log: CallbackLog
) -> None:
    coordinator.leader, coordinator.assigned = "other-member", orders(0, 1)
    agent = agent_calling(joined, callback_log, "on_revoked", ConsumerAgent.close, assignors=[PATIENT])
    coordinator.assigned = orders(1, 2)
    agent.subscribe(["orders", "refunds"])
    with pytest.raises(AgentClosed):
        poll_on(agent)

    assert callback_log.lines == [("assigned", [0, 1]), ("revoked", [0]), ("revoked", [1])]
    assert agent.assignment() == frozenset()


def test_poll_in_a_callback_starts_no_rejoin(
    coordinator: FakeCoordinator, joined: AgentMaker, callback_log: CallbackLog
) -> None:
    polled: list[list[int]] = []
    agent = agent_calling(
        joined, callback_log, "on_revoked", lambda agent: polled.append(numbers(agent.poll(timeout_s=0.05)))
    )
    joins = coordinator.count("join")
    agent.subscribe(["orders", "refunds"])

    assert numbers(agent.poll(PATIENCE_S)) == [0, 1, 2]
    assert polled == [[0, 1, 2]]
    assert callback_log.lines == [("assigned", [0, 1, 2]), ("revoked", [0, 1, 2]), ("assigned", [0, 1, 2])]
    assert coordinator.count("join") == joins + 1


def test_poll_in_a_callback_waits_for_its_timeout(
    joined: AgentMaker, callback_log: CallbackLog, clock: ManualClock
) -> None:
    agent = agent_calling(joined, callback_log, "on_revoked", lambda agent: agent.poll(timeout_s=5), clock=clock)
    agent.pause(agent.assignment())
    agent.subscribe(["orders", "refunds"])
    caller = threading.Thread(target=agent.poll, name="caller")
    caller.start()
    clock.wait_for_sleeper("caller", (5_000, 5_000))
    clock.advance(5_000)
    caller.join()

    assert callback_log.lines == [("assigned", [0, 1, 2]), ("revoked", [0, 1, 2])]
