"""Rejection of concurrent calls and of calls in a forked process; wakeup() is allowed from any thread."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from agent import ConcurrentUse, ConsumerAgent, TopicPartition
from tests.integration.agent.agents import AgentMaker
from tests.support.fake_coordinator import FakeCoordinator
from tests.support.waiting import PATIENCE_S

PARTITION = TopicPartition("orders", 0)

CALLS: dict[str, Callable[[ConsumerAgent], object]] = {
    "subscribe": lambda agent: agent.subscribe(["orders"]),
    "unsubscribe": lambda agent: agent.unsubscribe(),
    "poll": lambda agent: agent.poll(),
    "wait": lambda agent: agent.wait(0),
    "close": lambda agent: agent.close(),
    "position": lambda agent: agent.position(PARTITION),
    "seek": lambda agent: agent.seek(PARTITION, 1),
    "pause": lambda agent: agent.pause([PARTITION]),
    "resume": lambda agent: agent.resume([PARTITION]),
    "commit": lambda agent: agent.commit(),
    "committed": lambda agent: agent.committed(),
}


@pytest.mark.parametrize("name", list(CALLS))
def test_concurrent_use_by_a_second_thread_is_rejected(make_agent: AgentMaker, name: str) -> None:
    refused: list[ConcurrentUse] = []

    def intrude() -> None:
        with pytest.raises(ConcurrentUse, match=name) as caught:
            CALLS[name](agent)
        refused.append(caught.value)

    def while_inside(_: object) -> None:
        intruder = threading.Thread(target=intrude)
        intruder.start()
        intruder.join()

    agent = make_agent(on_assigned=while_inside)
    agent.poll(PATIENCE_S)

    assert len(refused) == 1


def test_one_thread_after_another_may_use_an_agent(joined: AgentMaker) -> None:
    agent = joined()
    other = threading.Thread(target=agent.seek, args=(PARTITION, 7))
    other.start()
    other.join()

    assert agent.position(PARTITION) == 7


@pytest.mark.parametrize("name", [name for name in CALLS if name != "close"])
def test_use_in_a_forked_process_is_rejected(
    coordinator: FakeCoordinator, joined: AgentMaker, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    agent = joined()
    calls = len(coordinator.seen)
    with monkeypatch.context() as in_the_child:
        in_the_child.setattr("os.getpid", lambda: -1)
        with pytest.raises(ConcurrentUse, match=f"{name}.*another process"):
            CALLS[name](agent)

    assert {seen.call for seen in coordinator.seen[calls:]} <= {"heartbeat"}
