"""Fixtures of the agent's tests: a fake coordinator, agents that are closed after the test, and a callback recorder."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent import ConsumerAgent
from agent.threaded.runtime import ThreadRuntime
from tests.integration.agent.agents import QUICK, AgentMaker, CallbackLog
from tests.support.certificates import write_certificate
from tests.support.fake_coordinator import FakeCoordinator
from tests.support.manual_clock import ManualClock
from tests.support.waiting import PATIENCE_S


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


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_certificate(tmp_path_factory.mktemp("tls") / "node.pem")


@pytest.fixture
def secure(certificate: Path) -> Iterator[FakeCoordinator]:
    fake = FakeCoordinator(certificate)
    fake.start()
    yield fake
    fake.stop()


@pytest.fixture
def callback_log() -> CallbackLog:
    return CallbackLog()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def make_agent(coordinator: FakeCoordinator, other_node: FakeCoordinator) -> Iterator[AgentMaker]:
    """Make agents of the group "billing" on the fake coordinator; each is closed when the test is over."""
    made: list[ConsumerAgent] = []

    def make(base_url: str | list[str] | None = None, group_id: str = "billing", **options: Any) -> ConsumerAgent:  # noqa: ANN401  # whatever an agent takes
        topics = options.pop("topics", ("orders",))
        if clock := options.pop("clock", None):
            options["runtime"] = ThreadRuntime(clock)
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
