"""Results of asynchronous commits, and validation of offsets."""

from __future__ import annotations

import socket
import threading
from decimal import Decimal

import pytest

from agent import (
    AgentError,
    CommitFailed,
    ConsumerAgent,
    InvalidRequest,
    OffsetAndMetadata,
    OffsetsRefused,
    RebalanceInProgress,
    RetryError,
    TopicPartition,
)
from agent.core.commit_queue import Offsets
from agent.core.runtime import run_blocking
from agent.errors import CoordinatorNotAvailable
from tests.integration.agent.agents import AgentMaker
from tests.support.fake_coordinator import FakeCoordinator, Hold, Problem
from tests.support.waiting import PATIENCE_S

ZERO, ONE, TWO = (TopicPartition("orders", number) for number in range(3))
OVERTAKEN = Problem("ILLEGAL_GENERATION", 409, "rejoin")
BUSY = Problem("COORDINATOR_NOT_AVAILABLE", 503, "retry")

NO_OFFSETS = [Decimal(5), 5.0, "5", None]


class Index:
    """A whole number of another kind, such as numpy's."""

    def __index__(self) -> int:
        return 7


class Outcomes:
    """The calls of on_complete, in order."""

    def __init__(self) -> None:
        self.reported: list[AgentError | None] = []

    def on_complete(self, _: Offsets, error: AgentError | None) -> None:
        self.reported.append(error)

    def kinds(self) -> list[type[object]]:
        return [type(error) for error in self.reported]


@pytest.fixture
def outcomes() -> Outcomes:
    return Outcomes()


def until_answered(agent: ConsumerAgent) -> None:
    """Wait until the coordinator has answered every asynchronous commit."""
    consumer = agent._consumer
    assert run_blocking(consumer._commits._queue.drain(consumer._runtime.now_ms() + 20_000))


@pytest.mark.parametrize("offset", NO_OFFSETS, ids=repr)
def test_fractional_offset_is_rejected(coordinator: FakeCoordinator, joined: AgentMaker, offset: object) -> None:
    agent = joined()

    with pytest.raises(ValueError, match="offset of orders-0 must be a whole number, and is"):
        agent.seek(ZERO, offset)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="offset of orders-0 must be a whole number, and is"):
        agent.commit({ZERO: offset})  # type: ignore[dict-item]
    with pytest.raises(ValueError, match="offset of orders-0 must be a whole number, and is"):
        agent.commit({ZERO: OffsetAndMetadata(offset)})  # type: ignore[arg-type]
    assert agent.position(ZERO) == 0
    assert coordinator.count("commit") == 0


@pytest.mark.parametrize("field", ["leader_epoch", "log_end_offset"])
def test_fractional_field_of_an_offset_is_rejected(joined: AgentMaker, field: str) -> None:
    with pytest.raises(ValueError, match=f"{field} of orders-0 must be a whole number, and is Decimal"):
        joined().commit({ZERO: OffsetAndMetadata(1, **{field: Decimal(5)})})  # type: ignore[arg-type]


def test_integer_of_another_type_is_accepted(coordinator: FakeCoordinator, joined: AgentMaker) -> None:
    agent = joined(end_offset_of=lambda _: Index())
    agent.seek(ZERO, Index())  # type: ignore[arg-type]
    agent.commit()
    agent.commit({ONE: Index()}, asynchronous=True)  # type: ignore[dict-item]
    until_answered(agent)

    assert coordinator.offsets[ZERO]["offset"] == coordinator.offsets[ONE]["offset"] == 7
    assert coordinator.offsets[ZERO]["log_end_offset"] == 7


def test_fractional_log_end_does_not_break_later_commits(coordinator: FakeCoordinator, joined: AgentMaker) -> None:
    ends: list[object] = [Decimal(100)]
    agent = joined(end_offset_of=lambda _: ends[0])
    for is_asynchronous in (True, False):
        with pytest.raises(ValueError, match="end offset of orders-0 must be a whole number, and is Decimal"):
            agent.commit(asynchronous=is_asynchronous)
    ends[0] = 100
    agent.commit()

    assert coordinator.offsets[ZERO]["log_end_offset"] == 100


def test_reset_to_latest_starts_at_an_integer_offset(make_agent: AgentMaker) -> None:
    agent = make_agent(auto_offset_reset="latest", end_offset_of=lambda _: Decimal(5))

    with pytest.raises(ValueError, match="end offset of orders-0 must be a whole number, and is Decimal"):
        agent.poll(PATIENCE_S)


def test_unserializable_commit_fails_alone(
    coordinator: FakeCoordinator, joined: AgentMaker, outcomes: Outcomes
) -> None:
    agent = joined()
    unwritable = OffsetAndMetadata(5, metadata=object())  # type: ignore[arg-type]
    agent.commit({ZERO: unwritable}, asynchronous=True, on_complete=outcomes.on_complete)
    until_answered(agent)
    agent.commit({ONE: 6}, asynchronous=True, on_complete=outcomes.on_complete)
    agent.commit({ZERO: 7})

    assert outcomes.kinds() == [AgentError, type(None)]
    assert "TypeError" in str(outcomes.reported[0])
    assert (coordinator.offsets[ZERO]["offset"], coordinator.offsets[ONE]["offset"]) == (7, 6)


INVALID = Problem("INVALID_REQUEST", 400, "fix")


def test_refused_commit_fails_alone(coordinator: FakeCoordinator, joined: AgentMaker, outcomes: Outcomes) -> None:
    gate = threading.Event()
    coordinator.next("commit", Hold(gate), INVALID, INVALID)
    agent = joined()
    agent.commit({TWO: 1}, asynchronous=True, on_complete=outcomes.on_complete)
    coordinator.wait_for_calls("commit", 1)
    for offsets in ({ZERO: 1}, {ONE: 2}, {ZERO: 3}):
        agent.commit(offsets, asynchronous=True, on_complete=outcomes.on_complete)
    gate.set()
    until_answered(agent)
    agent.poll()

    assert outcomes.kinds() == [type(None), InvalidRequest, type(None), type(None)]
    assert (coordinator.offsets[ZERO]["offset"], coordinator.offsets[ONE]["offset"]) == (3, 2)


def test_refused_partition_fails_its_own_commits(
    coordinator: FakeCoordinator, joined: AgentMaker, outcomes: Outcomes
) -> None:
    gate = threading.Event()
    coordinator.next("commit", Hold(gate, INVALID))
    agent = joined()
    agent.commit({TWO: 1}, asynchronous=True, on_complete=outcomes.on_complete)
    coordinator.wait_for_calls("commit", 1)
    for offsets in ({ZERO: 1}, {ONE: 1}, {ZERO: 2, ONE: 2}):
        agent.commit(offsets, asynchronous=True, on_complete=outcomes.on_complete)
    coordinator.answers["commit"] = {
        "offsets": [
            {"topic": "orders", "partition": 0, "code": "NONE"},
            {"topic": "orders", "partition": 1, "code": "OFFSET_METADATA_TOO_LARGE"},
        ]
    }
    gate.set()
    until_answered(agent)
    agent.poll()

    assert outcomes.kinds() == [InvalidRequest, type(None), OffsetsRefused, OffsetsRefused]
    assert coordinator.count("commit") == 2


def test_commit_outcomes_are_reported_at_the_next_commit(joined: AgentMaker, outcomes: Outcomes) -> None:
    agent = joined()
    agent.commit({ZERO: 1}, asynchronous=True, on_complete=outcomes.on_complete)
    agent.commit({ONE: 1})

    assert outcomes.reported == [None]


@pytest.mark.parametrize("has_joined", [True, False])
def test_commit_of_nothing_has_an_outcome(make_agent: AgentMaker, outcomes: Outcomes, has_joined: bool) -> None:
    agent = make_agent()
    if has_joined:
        agent.poll(PATIENCE_S)
    agent.commit({}, asynchronous=True, on_complete=outcomes.on_complete)
    agent.poll()

    assert outcomes.reported == [None]


def test_commit_of_nothing_waits_for_earlier_commits(
    coordinator: FakeCoordinator, joined: AgentMaker, outcomes: Outcomes
) -> None:
    agent = joined()
    coordinator.next("commit", BUSY)
    agent.commit({ZERO: 1}, asynchronous=True, on_complete=outcomes.on_complete)
    agent.commit({})

    assert outcomes.reported == [None]
    assert coordinator.offsets[ZERO]["offset"] == 1


def test_commit_outcomes_are_reported_at_a_failing_commit(
    coordinator: FakeCoordinator, joined: AgentMaker, outcomes: Outcomes
) -> None:
    agent = joined()
    coordinator.next("commit", OVERTAKEN)
    agent.commit({ZERO: 1}, asynchronous=True, on_complete=outcomes.on_complete)
    until_answered(agent)
    with pytest.raises(CommitFailed):
        agent.commit({ONE: 1})

    assert outcomes.kinds() == [CommitFailed]


@pytest.mark.parametrize("leave", [ConsumerAgent.close, ConsumerAgent.unsubscribe])
def test_leaving_consumer_gets_its_last_commit_outcomes(
    coordinator: FakeCoordinator, joined: AgentMaker, outcomes: Outcomes, leave: object
) -> None:
    agent = joined()
    coordinator.next("commit", OVERTAKEN)
    agent.commit({ZERO: 1}, asynchronous=True, on_complete=outcomes.on_complete)
    assert callable(leave)
    leave(agent)

    assert outcomes.kinds() == [CommitFailed]


def test_commit_during_revocation_is_stored_and_reported_before_leaving(
    coordinator: FakeCoordinator, joined: AgentMaker, outcomes: Outcomes
) -> None:
    agents: list[ConsumerAgent] = []

    def commit(_: object) -> None:
        agents[0].commit({ZERO: 9}, asynchronous=True, on_complete=outcomes.on_complete)

    agents.append(joined(on_revoked=commit))
    agents[0].close()

    assert outcomes.reported == [None]
    assert [seen.call for seen in coordinator.seen[-2:]] == ["commit", "leave"]


def test_asynchronous_commit_during_revocation_is_stored_before_the_rejoin(
    coordinator: FakeCoordinator, joined: AgentMaker, outcomes: Outcomes
) -> None:
    agents: list[ConsumerAgent] = []

    def commit(_: object) -> None:
        agents[0].commit({ZERO: 9}, asynchronous=True, on_complete=outcomes.on_complete)

    agents.append(joined(on_revoked=commit, retry_backoff_ms=50))
    coordinator.next("commit", BUSY)
    agents[0].subscribe(["orders", "refunds"])
    agents[0].poll(PATIENCE_S)

    assert outcomes.reported == [None]
    assert agents[0].position(ZERO) == 9


def test_commit_cut_off_by_close_is_reported_as_failed(
    coordinator: FakeCoordinator, joined: AgentMaker, outcomes: Outcomes
) -> None:
    never = threading.Event()
    coordinator.next("commit", Hold(never))
    agent = joined()
    agent.commit({ZERO: 1}, asynchronous=True, on_complete=outcomes.on_complete)
    coordinator.wait_for_calls("commit", 1)
    agent.commit({ZERO: 2}, asynchronous=True, on_complete=outcomes.on_complete)
    agent.close(timeout_s=0.05)
    never.set()

    assert [isinstance(error, RetryError) for error in outcomes.reported] == [True, True]


def test_commit_that_waits_for_a_connection_is_reported_as_failed_by_close(
    coordinator: FakeCoordinator, joined: AgentMaker, outcomes: Outcomes
) -> None:
    coordinator.heartbeat_interval_ms = 600_000
    agent = joined(client_id="consumer-billing-hangs")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        coordinator.headers = {"X-Muster-Coordinator": f"https://127.0.0.1:{silent.getsockname()[1]}"}
        agent.commit({ONE: 1})
        agent.commit({ZERO: 1}, asynchronous=True, on_complete=outcomes.on_complete)
        with silent.accept()[0]:  # The handshake of TLS begins, which nothing ends but its timeout.
            agent.close(timeout_s=0.05)
    for thread in threading.enumerate():
        if thread.name == "consumer-billing-hangs-commits":
            thread.join(PATIENCE_S)

    assert outcomes.kinds() == [CoordinatorNotAvailable]


def test_raising_callback_does_not_prevent_other_callbacks(joined: AgentMaker, outcomes: Outcomes) -> None:
    def refuse(_: Offsets, error: AgentError | None) -> None:
        raise LookupError("no slot")

    agent = joined()
    agent.commit({ZERO: 1}, asynchronous=True, on_complete=refuse)
    agent.commit({ZERO: 2}, asynchronous=True, on_complete=outcomes.on_complete)
    until_answered(agent)
    with pytest.raises(LookupError):
        agent.poll()
    agent.poll()

    assert outcomes.reported == [None]


def test_raising_on_complete_does_not_prevent_leaving(coordinator: FakeCoordinator, joined: AgentMaker) -> None:
    given_back: list[object] = []

    def refuse(_: Offsets, error: AgentError | None) -> None:
        raise LookupError("no slot")

    agent = joined(on_revoked=given_back.append)
    agent.commit({ZERO: 1}, asynchronous=True, on_complete=refuse)
    with pytest.raises(LookupError):
        agent.close()

    assert len(given_back) == 1
    assert coordinator.member_id == ""


def test_asynchronous_commit_during_a_rejoin_reports_its_failure(
    coordinator: FakeCoordinator, joined: AgentMaker, outcomes: Outcomes
) -> None:
    agent = joined()
    gate = threading.Event()
    coordinator.next("join", Hold(gate))
    agent.subscribe(["refunds"])
    agent.poll()
    agent.commit({ZERO: 1}, asynchronous=True, on_complete=outcomes.on_complete)
    assert outcomes.reported == []
    agent.poll()
    gate.set()

    assert outcomes.kinds() == [RebalanceInProgress]


def test_commit_and_fetch_respect_their_timeout(coordinator: FakeCoordinator, joined: AgentMaker) -> None:
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


def test_close_calls_every_on_complete_though_each_raises(coordinator: FakeCoordinator, joined: AgentMaker) -> None:
    agent = joined()
    called = []

    def fail(offsets: Offsets, _: AgentError | None) -> None:
        called.append(offsets[ZERO].offset)
        raise LookupError(str(offsets[ZERO].offset))

    for offset in range(6):
        agent.commit({ZERO: offset}, asynchronous=True, on_complete=fail)
    with pytest.raises(LookupError):
        agent.close()

    assert called == list(range(6))
