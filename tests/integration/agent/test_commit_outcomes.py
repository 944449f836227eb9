"""Every commit has an outcome and whoever asked for it is told; what can be no offset is refused before it is sent."""

from __future__ import annotations

import threading
from decimal import Decimal

import pytest

from agent import (
    AgentError,
    CommitFailed,
    ConsumerAgent,
    OffsetAndMetadata,
    RebalanceInProgress,
    RetryError,
    TopicPartition,
)
from agent.commit_queue import Offsets
from tests.integration.agent.agents import AgentMaker
from tests.support.fake_coordinator import FakeCoordinator, Hold, Problem
from tests.support.waiting import PATIENCE_S

ZERO, ONE = (TopicPartition("orders", number) for number in range(2))
OVERTAKEN = Problem("ILLEGAL_GENERATION", 409, "rejoin")
BUSY = Problem("COORDINATOR_NOT_AVAILABLE", 503, "retry")

NO_OFFSETS = [Decimal(5), 5.0, "5", None]


class Index:
    """A whole number of another kind, such as numpy's."""

    def __index__(self) -> int:
        return 7


class Outcomes:
    """What on_done was told, in order."""

    def __init__(self) -> None:
        self.told: list[AgentError | None] = []

    def on_done(self, _: Offsets, error: AgentError | None) -> None:
        self.told.append(error)

    def kinds(self) -> list[type[object]]:
        return [type(error) for error in self.told]


@pytest.fixture
def outcomes() -> Outcomes:
    return Outcomes()


def until_answered(agent: ConsumerAgent) -> None:
    """Wait until the coordinator has answered every asynchronous commit."""
    assert agent._commits._queue.drain(agent._clock.now_ms() + 20_000)


@pytest.mark.parametrize("offset", NO_OFFSETS, ids=repr)
def test_what_is_no_whole_number_is_no_position_and_no_commit(
    coordinator: FakeCoordinator, joined: AgentMaker, offset: object
) -> None:
    agent = joined()

    with pytest.raises(ValueError, match="offset of orders-0 is a whole number, and not"):
        agent.seek(ZERO, offset)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="offset of orders-0 is a whole number, and not"):
        agent.commit({ZERO: offset})  # type: ignore[dict-item]
    with pytest.raises(ValueError, match="offset of orders-0 is a whole number, and not"):
        agent.commit({ZERO: OffsetAndMetadata(offset)})  # type: ignore[arg-type]
    assert agent.position(ZERO) == 0
    assert coordinator.count("commit") == 0


@pytest.mark.parametrize("field", ["leader_epoch", "log_end_offset"])
def test_what_goes_along_with_an_offset_is_whole_too(joined: AgentMaker, field: str) -> None:
    with pytest.raises(ValueError, match=f"{field} of orders-0 is a whole number, and not Decimal"):
        joined().commit({ZERO: OffsetAndMetadata(1, **{field: Decimal(5)})})  # type: ignore[arg-type]


def test_a_whole_number_of_another_kind_is_taken_for_what_it_is(
    coordinator: FakeCoordinator, joined: AgentMaker
) -> None:
    agent = joined(end_offset_of=lambda _: Index())
    agent.seek(ZERO, Index())  # type: ignore[arg-type]
    agent.commit()
    agent.commit({ONE: Index()}, asynchronous=True)  # type: ignore[dict-item]
    until_answered(agent)

    assert coordinator.offsets[ZERO]["offset"] == coordinator.offsets[ONE]["offset"] == 7
    assert coordinator.offsets[ZERO]["log_end_offset"] == 7


def test_an_end_that_is_no_whole_number_ends_no_later_commit(coordinator: FakeCoordinator, joined: AgentMaker) -> None:
    ends: list[object] = [Decimal(100)]
    agent = joined(end_offset_of=lambda _: ends[0])
    for is_asynchronous in (True, False):
        with pytest.raises(ValueError, match="end offset of orders-0 is a whole number, and not Decimal"):
            agent.commit(asynchronous=is_asynchronous)
    ends[0] = 100
    agent.commit()

    assert coordinator.offsets[ZERO]["log_end_offset"] == 100


def test_with_latest_a_partition_begins_at_a_whole_number(make_agent: AgentMaker) -> None:
    agent = make_agent(auto_offset_reset="latest", end_offset_of=lambda _: Decimal(5))

    with pytest.raises(ValueError, match="end offset of orders-0 is a whole number, and not Decimal"):
        agent.poll(PATIENCE_S)


def test_a_commit_that_cannot_be_written_down_fails_alone(
    coordinator: FakeCoordinator, joined: AgentMaker, outcomes: Outcomes
) -> None:
    agent = joined()
    unwritable = OffsetAndMetadata(5, metadata=object())  # type: ignore[arg-type]
    agent.commit({ZERO: unwritable}, asynchronous=True, on_done=outcomes.on_done)
    until_answered(agent)
    agent.commit({ONE: 6}, asynchronous=True, on_done=outcomes.on_done)
    agent.commit({ZERO: 7})

    assert outcomes.kinds() == [AgentError, type(None)]
    assert "TypeError" in str(outcomes.told[0])
    assert (coordinator.offsets[ZERO]["offset"], coordinator.offsets[ONE]["offset"]) == (7, 6)


def test_outcomes_are_told_at_the_next_commit(joined: AgentMaker, outcomes: Outcomes) -> None:
    agent = joined()
    agent.commit({ZERO: 1}, asynchronous=True, on_done=outcomes.on_done)
    agent.commit({ONE: 1})

    assert outcomes.told == [None]


def test_outcomes_are_told_at_the_next_commit_even_if_that_one_fails(
    coordinator: FakeCoordinator, joined: AgentMaker, outcomes: Outcomes
) -> None:
    agent = joined()
    coordinator.next("commit", OVERTAKEN)
    agent.commit({ZERO: 1}, asynchronous=True, on_done=outcomes.on_done)
    until_answered(agent)
    with pytest.raises(CommitFailed):
        agent.commit({ONE: 1})

    assert outcomes.kinds() == [CommitFailed]


@pytest.mark.parametrize("leave", [ConsumerAgent.close, ConsumerAgent.unsubscribe])
def test_who_leaves_is_told_how_the_last_commits_ended(
    coordinator: FakeCoordinator, joined: AgentMaker, outcomes: Outcomes, leave: object
) -> None:
    agent = joined()
    coordinator.next("commit", OVERTAKEN)
    agent.commit({ZERO: 1}, asynchronous=True, on_done=outcomes.on_done)
    assert callable(leave)
    leave(agent)

    assert outcomes.kinds() == [CommitFailed]


def test_a_commit_made_while_giving_back_is_stored_and_told_before_the_member_leaves(
    coordinator: FakeCoordinator, joined: AgentMaker, outcomes: Outcomes
) -> None:
    agents: list[ConsumerAgent] = []

    def commit(_: object) -> None:
        agents[0].commit({ZERO: 9}, asynchronous=True, on_done=outcomes.on_done)

    agents.append(joined(on_revoked=commit))
    agents[0].close()

    assert outcomes.told == [None]
    assert [seen.call for seen in coordinator.seen[-2:]] == ["commit", "leave"]


def test_a_commit_that_closing_cut_off_is_told_as_failed(
    coordinator: FakeCoordinator, joined: AgentMaker, outcomes: Outcomes
) -> None:
    never = threading.Event()
    coordinator.next("commit", Hold(never))
    agent = joined()
    agent.commit({ZERO: 1}, asynchronous=True, on_done=outcomes.on_done)
    coordinator.wait_for_calls("commit", 1)
    agent.commit({ZERO: 2}, asynchronous=True, on_done=outcomes.on_done)
    agent.close(timeout_s=0.05)
    never.set()

    assert [isinstance(error, RetryError) for error in outcomes.told] == [True, True]


def test_an_on_done_that_raises_keeps_no_other_from_being_told(joined: AgentMaker, outcomes: Outcomes) -> None:
    def refuse(_: Offsets, error: AgentError | None) -> None:
        raise LookupError("no room")

    agent = joined()
    agent.commit({ZERO: 1}, asynchronous=True, on_done=refuse)
    agent.commit({ZERO: 2}, asynchronous=True, on_done=outcomes.on_done)
    until_answered(agent)
    with pytest.raises(LookupError):
        agent.poll()
    agent.poll()

    assert outcomes.told == [None]


def test_an_on_done_that_raises_keeps_no_member_from_giving_back_and_leaving(
    coordinator: FakeCoordinator, joined: AgentMaker
) -> None:
    given_back: list[object] = []

    def refuse(_: Offsets, error: AgentError | None) -> None:
        raise LookupError("no room")

    agent = joined(on_revoked=given_back.append)
    agent.commit({ZERO: 1}, asynchronous=True, on_done=refuse)
    with pytest.raises(LookupError):
        agent.close()

    assert len(given_back) == 1
    assert coordinator.member_id == ""


def test_during_a_rejoin_an_asynchronous_commit_tells_its_failure_to_on_done(
    coordinator: FakeCoordinator, joined: AgentMaker, outcomes: Outcomes
) -> None:
    agent = joined()
    gate = threading.Event()
    coordinator.next("join", Hold(gate))
    agent.subscribe(["refunds"])
    agent.poll()
    agent.commit({ZERO: 1}, asynchronous=True, on_done=outcomes.on_done)
    assert outcomes.told == []
    agent.poll()
    gate.set()

    assert outcomes.kinds() == [RebalanceInProgress]


def test_a_commit_and_a_fetch_wait_no_longer_than_they_are_told_to(
    coordinator: FakeCoordinator, joined: AgentMaker
) -> None:
    agent = joined(api_timeout_ms=600_000)
    never = threading.Event()
    coordinator.next("commit", Hold(never))
    coordinator.next("query", Hold(never))

    with pytest.raises(RetryError):
        agent.commit({ZERO: 1}, timeout_s=0.05)
    with pytest.raises(RetryError):
        agent.committed([ZERO], timeout_s=0.05)
    coordinator.next("commit", *[BUSY] * 1_000)
    with pytest.raises(RetryError):
        agent.commit({ZERO: 1}, timeout_s=0.05)
    never.set()
