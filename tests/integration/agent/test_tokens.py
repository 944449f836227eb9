"""A token that changes while the agent runs."""

from __future__ import annotations

import pytest

from tests.integration.agent.agents import AgentMaker
from tests.support.fake_coordinator import FakeCoordinator, numbers
from tests.support.waiting import PATIENCE_S


def test_a_new_token_is_sent_with_the_next_request(coordinator: FakeCoordinator, joined: AgentMaker) -> None:
    tokens = ["old"]
    agent = joined(token=lambda: tokens[-1])
    tokens.append("new")
    agent.close()

    assert {seen.headers["Authorization"] for seen in coordinator.seen if seen.call == "join"} == {"Bearer old"}
    assert [seen.headers["Authorization"] for seen in coordinator.seen if seen.call == "leave"] == ["Bearer new"]


def test_a_request_is_repeated_after_its_token_could_not_be_had(
    coordinator: FakeCoordinator, make_agent: AgentMaker, caplog: pytest.LogCaptureFixture
) -> None:
    def found() -> str:
        failures.append(1)
        if len(failures) == 1:
            raise FileNotFoundError("/run/hunter2")
        return "s3cret" if len(failures) > 2 else "two\nlines"

    failures: list[int] = []
    assert numbers(make_agent(token=found).poll(PATIENCE_S)) == [0, 1, 2]
    assert [line for line in caplog.messages if "token" in line] == [
        "the function token failed (FileNotFoundError), so no request is sent",
        "the function token failed (ValueError), so no request is sent",
    ]
