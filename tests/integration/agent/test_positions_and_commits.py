"""Positions, commits, committed offsets, auto-commit and log end offsets."""

from __future__ import annotations

import threading

import pytest

from agent import (
    AgentError,
    CommitFailed,
    ConsumerAgent,
    NoOffsetForPartition,
    OffsetAndMetadata,
    OffsetsRefused,
    RebalanceInProgress,
    RequestError,
    TopicPartition,
)
from agent.core.commit_queue import Offsets
from agent.core.membership import MemberIdentity
from agent.core.runtime import run_blocking
from tests.integration.agent.agents import AgentMaker, CallbackLog
from tests.support.fake_coordinator import FakeCoordinator, Hold, Problem, numbers
from tests.support.manual_clock import ManualClock
from tests.support.waiting import PATIENCE_S

ZERO, ONE, TWO = (TopicPartition("orders", number) for number in range(3))


def stored(coordinator: FakeCoordinator) -> dict[int, int]:
    """Return the committed offsets of the topic "orders" by partition."""
    return {number: entry["offset"] for (topic, number), entry in sorted(coordinator.offsets.items())}


def put(coordinator: FakeCoordinator, partition: TopicPartition, offset: int) -> None:
    coordinator.offsets[partition] = {"topic": partition.topic, "partition": partition.partition, "offset": offset}


def test_consumer_resumes_at_committed_offsets(coordinator: FakeCoordinator, joined: AgentMaker) -> None:
    put(coordinator, ONE, 41)
    agent = joined()

    assert dict(agent.poll()) == {ZERO: 0, ONE: 41, TWO: 0}
    assert agent.position(ONE) == 41


def test_commit_stores_all_positions_with_log_end_offsets(coordinator: FakeCoordinator, joined: AgentMaker) -> None:
    agent = joined(end_offset_of=lambda partition: 100 + partition.partition)
    agent.seek(ONE, 5)
    agent.commit()

    assert stored(coordinator) == {0: 0, 1: 5, 2: 0}
    assert coordinator.offsets[TWO] == {
        "topic": "orders",
        "partition": 2,
        "offset": 0,
        "leader_epoch": -1,
        "metadata": "",
        "log_end_offset": 102,
    }


def test_a_commit_can_name_its_offsets(coordinator: FakeCoordinator, joined: AgentMaker) -> None:
    agent = joined()
    agent.commit({ONE: 7, TWO: OffsetAndMetadata(8, metadata="by hand", leader_epoch=3, log_end_offset=9)})

    assert stored(coordinator) == {1: 7, 2: 8}
    assert agent.committed([ZERO, TWO]) == {
        ZERO: None,
        TWO: OffsetAndMetadata(8, metadata="by hand", leader_epoch=3, log_end_offset=9),
    }
    assert {each.partition: None if found is None else found.offset for each, found in agent.committed().items()} == {
        0: None,
        1: 7,
        2: 8,
    }


def test_large_commits_and_fetches_are_split(coordinator: FakeCoordinator, joined: AgentMaker) -> None:
    agent = joined(max_partitions_per_request=2)
    agent.commit()

    assert [len(body["offsets"]) for body in coordinator.bodies("commit")] == [2, 1]
    assert stored(coordinator) == {0: 0, 1: 0, 2: 0}
    assert len(coordinator.bodies("query")) == 2


def test_empty_commit_sends_no_request(coordinator: FakeCoordinator, make_agent: AgentMaker) -> None:
    make_agent().commit()

    assert coordinator.seen == []


def test_partitions_that_are_refused_are_named(coordinator: FakeCoordinator, joined: AgentMaker) -> None:
    agent = joined()
    coordinator.answers["commit"] = {
        "offsets": [
            {"topic": "orders", "partition": 0, "code": "NONE"},
            {"topic": "orders", "partition": 1, "code": "OFFSET_METADATA_TOO_LARGE"},
        ]
    }

    with pytest.raises(OffsetsRefused, match="orders-1: OFFSET_METADATA_TOO_LARGE") as refused:
        agent.commit({ZERO: 1, ONE: 2})
    assert refused.value.codes == {ONE: "OFFSET_METADATA_TOO_LARGE"}


@pytest.mark.parametrize(
    ("problem", "error"),
    [
        (Problem("UNKNOWN_MEMBER_ID", 404, "rejoin"), CommitFailed),
        (Problem("ILLEGAL_GENERATION", 409, "rejoin"), CommitFailed),
        (Problem("GROUP_ID_NOT_FOUND", 404, "fix"), CommitFailed),
        (Problem("REBALANCE_IN_PROGRESS", 409, "rejoin"), RebalanceInProgress),
    ],
)
def test_late_commit_fails_and_the_next_poll_rejoins(
    coordinator: FakeCoordinator,
    joined: AgentMaker,
    callback_log: CallbackLog,
    problem: Problem,
    error: type[AgentError],
) -> None:
    agent = joined(**callback_log.callbacks())
    coordinator.next("commit", problem)
    with pytest.raises(error):
        agent.commit()

    assert numbers(agent.poll(PATIENCE_S)) == [0, 1, 2]
    given_back = "lost" if error is CommitFailed else "revoked"
    assert callback_log.lines == [("assigned", [0, 1, 2]), (given_back, [0, 1, 2]), ("assigned", [0, 1, 2])]


def test_rejected_commit_does_not_end_the_membership(coordinator: FakeCoordinator, joined: AgentMaker) -> None:
    agent = joined()
    coordinator.next("commit", Problem("INVALID_REQUEST", 400, "fix"))
    with pytest.raises(RequestError, match="INVALID_REQUEST"):
        agent.commit()
    agent.commit()

    assert coordinator.count("join") == 2
    assert stored(coordinator) == {0: 0, 1: 0, 2: 0}


def test_on_revoked_can_commit(coordinator: FakeCoordinator, joined: AgentMaker) -> None:
    agents: list[ConsumerAgent] = []
    agent = joined(on_revoked=lambda _: agents[0].commit())
    agents.append(agent)
    agent.seek(ONE, 11)
    coordinator.next("commit", Problem("COORDINATOR_NOT_AVAILABLE", 503, "retry"))
    agent.subscribe(["orders", "refunds"])
    agent.poll(PATIENCE_S)

    assert stored(coordinator)[1] == 11
    assert agent.position(ONE) == 11


def test_next_generation_starts_at_positions_committed_on_revocation(
    coordinator: FakeCoordinator, joined: AgentMaker
) -> None:
    agent = joined()
    agent.seek(ONE, 11)
    agent.subscribe(["orders", "refunds"])
    agent.poll(PATIENCE_S)

    assert agent.position(ONE) == 0


def test_commit_during_a_join_raises(coordinator: FakeCoordinator, joined: AgentMaker) -> None:
    agent = joined()
    gate = threading.Event()
    coordinator.next("join", Hold(gate))
    agent.subscribe(["refunds"])
    agent.poll()
    with pytest.raises(RebalanceInProgress):
        agent.commit({ZERO: 1})
    gate.set()


def test_asynchronous_commits_arrive_in_order_and_report_at_a_poll(
    coordinator: FakeCoordinator, joined: AgentMaker
) -> None:
    reported: list[tuple[dict[TopicPartition, int], AgentError | None]] = []
    done = threading.Event()

    def on_complete(offsets: Offsets, error: AgentError | None) -> None:
        reported.append(({partition: offset.offset for partition, offset in offsets.items()}, error))
        if len(reported) == 3:
            done.set()

    gate = threading.Event()
    coordinator.next("commit", Hold(gate))
    agent = joined()
    agent.commit({ZERO: 1}, asynchronous=True, on_complete=on_complete)
    coordinator.wait_for_calls("commit", 1)
    agent.commit({ZERO: 2, ONE: 2}, asynchronous=True, on_complete=on_complete)
    agent.commit({ZERO: 3}, asynchronous=True, on_complete=on_complete)
    assert reported == []
    gate.set()
    while not done.is_set():
        agent.wait(PATIENCE_S)
        agent.poll()

    assert reported == [({ZERO: 1}, None), ({ZERO: 2, ONE: 2}, None), ({ZERO: 3}, None)]
    assert stored(coordinator) == {0: 3, 1: 2}
    assert coordinator.count("commit") == 2


def test_commit_is_sent_after_earlier_asynchronous_commits(coordinator: FakeCoordinator, joined: AgentMaker) -> None:
    coordinator.next("commit", *[Problem("COORDINATOR_NOT_AVAILABLE", 503, "retry")] * 3)
    agent = joined()
    agent.commit({ZERO: 1}, asynchronous=True)
    agent.commit({ZERO: 2})

    assert stored(coordinator) == {0: 2}
    assert [body["offsets"][0]["offset"] for body in coordinator.bodies("commit")] == [1, 1, 1, 1, 2]


def test_asynchronous_commits_of_two_generations_are_not_merged(
    coordinator: FakeCoordinator, joined: AgentMaker
) -> None:
    gate = threading.Event()
    coordinator.next("commit", Hold(gate))
    agent = joined()
    consumer = agent._consumer
    queue, now = consumer._commits._queue, consumer._shared.membership.identity
    queue.put(now, {ZERO: OffsetAndMetadata(1)}, None)
    coordinator.wait_for_calls("commit", 1)
    queue.put(MemberIdentity(now.member_id, 0), {ONE: OffsetAndMetadata(9)}, None)
    queue.put(now, {TWO: OffsetAndMetadata(2)}, None)
    gate.set()

    assert run_blocking(queue.drain(deadline_ms=consumer._runtime.now_ms() + 1_000 * PATIENCE_S))
    assert [body["generation"] for body in coordinator.bodies("commit")] == [1, 0, 1]
    assert stored(coordinator) == {0: 1, 2: 2}


def test_asynchronous_commit_reports_why_it_failed(coordinator: FakeCoordinator, joined: AgentMaker) -> None:
    reported: list[AgentError | None] = []
    agent = joined()
    coordinator.next("commit", Problem("ILLEGAL_GENERATION", 409, "rejoin"))
    agent.commit({ZERO: 1}, asynchronous=True, on_complete=lambda _, error: reported.append(error))
    while not reported:
        agent.wait(PATIENCE_S)
        agent.poll(timeout_s=0.05)

    assert [type(error) for error in reported] == [CommitFailed]


def test_auto_commit_stores_changed_positions_every_interval(
    coordinator: FakeCoordinator, joined: AgentMaker, clock: ManualClock
) -> None:
    agent = joined(enable_auto_commit=True, auto_commit_interval_ms=2_000, clock=clock)
    agent.commit()
    agent.seek(ONE, 5)
    clock.advance(1_999)
    agent.poll()
    assert coordinator.count("commit") == 1
    clock.advance(1)
    agent.poll()
    coordinator.wait_for_calls("commit", 2)

    assert [body["offsets"][0]["offset"] for body in coordinator.bodies("commit")[1:]] == [5]
    assert [len(body["offsets"]) for body in coordinator.bodies("commit")[1:]] == [1]


def test_auto_commit_stores_positions_before_revocation(coordinator: FakeCoordinator, joined: AgentMaker) -> None:
    agent = joined(enable_auto_commit=True)
    agent.seek(ONE, 5)
    agent.subscribe(["orders", "refunds"])
    agent.poll(PATIENCE_S)
    assert agent.position(ONE) == 5
    agent.seek(TWO, 6)
    agent.close()

    assert stored(coordinator) == {0: 0, 1: 5, 2: 6}


def test_auto_commit_stores_positions_before_the_agent_unsubscribes(
    coordinator: FakeCoordinator, joined: AgentMaker
) -> None:
    agent = joined(enable_auto_commit=True)
    agent.seek(TWO, 6)
    agent.unsubscribe()

    assert stored(coordinator) == {0: 0, 1: 0, 2: 6}
    assert [seen.call for seen in coordinator.seen[-2:]] == ["commit", "leave"]


def with_failing_log_ends(joined: AgentMaker, callback_log: CallbackLog) -> ConsumerAgent:
    """Return an agent with auto-commit, at 60 of partition 1, whose end_offset_of raises KeyError from now on."""
    ends = dict.fromkeys((ZERO, ONE, TWO), 100)
    agent = joined(
        enable_auto_commit=True,
        auto_commit_interval_ms=600_000,
        end_offset_of=ends.__getitem__,
        **callback_log.callbacks(),
    )
    agent.commit()
    agent.seek(ONE, 60)
    ends.clear()
    return agent


def test_failing_log_end_function_does_not_block_a_rebalance(
    coordinator: FakeCoordinator, joined: AgentMaker, callback_log: CallbackLog
) -> None:
    agent = with_failing_log_ends(joined, callback_log)
    agent.subscribe(["orders", "refunds"])
    with pytest.raises(KeyError):
        agent.poll()
    agent.poll(PATIENCE_S)

    assert agent.position(ONE) == 60
    assert callback_log.lines == [("assigned", [0, 1, 2]), ("revoked", [0, 1, 2]), ("assigned", [0, 1, 2])]


def test_failing_log_end_function_does_not_prevent_the_last_commit(
    coordinator: FakeCoordinator, joined: AgentMaker, callback_log: CallbackLog
) -> None:
    agent = with_failing_log_ends(joined, callback_log)
    with pytest.raises(KeyError):
        agent.close()

    assert (coordinator.offsets[ONE]["offset"], coordinator.offsets[ONE]["log_end_offset"]) == (60, None)
    assert coordinator.member_id == ""


def test_failing_auto_commit_does_not_block_a_rebalance(
    coordinator: FakeCoordinator, joined: AgentMaker, callback_log: CallbackLog
) -> None:
    agent = joined(enable_auto_commit=True, **callback_log.callbacks())
    agent.seek(ONE, 5)
    coordinator.next("commit", Problem("UNKNOWN_MEMBER_ID", 404, "rejoin"))
    agent.subscribe(["orders", "refunds"])
    agent.poll(PATIENCE_S)

    assert callback_log.lines == [("assigned", [0, 1, 2]), ("lost", [0, 1, 2]), ("assigned", [0, 1, 2])]


def test_idle_consumer_reports_log_end_offsets_each_minute(
    coordinator: FakeCoordinator, joined: AgentMaker, clock: ManualClock
) -> None:
    ends = {ZERO: 5, ONE: 9, TWO: None}
    agent = joined(end_offset_of=ends.get, clock=clock)
    agent.commit({ZERO: OffsetAndMetadata(5, metadata="by hand", leader_epoch=3), ONE: 4, TWO: 1})
    agent.seek(ONE, 8)
    ends[ONE] = 20
    clock.advance(60_000)
    agent.poll()
    coordinator.wait_for_calls("commit", 2)
    agent.close()

    assert stored(coordinator) == {0: 5, 1: 4, 2: 1}
    assert {number: coordinator.offsets["orders", number]["log_end_offset"] for number in range(3)} == {
        0: 5,
        1: 20,
        2: None,
    }
    assert coordinator.offsets[ZERO]["metadata"] == "by hand"
    assert coordinator.offsets[ZERO]["leader_epoch"] == 3


def test_consumer_sends_no_extra_report_if_its_commits_have_log_end_offsets(
    coordinator: FakeCoordinator, joined: AgentMaker, clock: ManualClock
) -> None:
    agent = joined(end_offset_of=lambda _: 100, clock=clock)
    for _ in range(4):
        clock.advance(30_000)
        agent.commit()
        agent.poll()

    agent.close()
    assert coordinator.count("commit") == 4


def test_consumer_without_log_end_offsets_sends_no_reports(
    coordinator: FakeCoordinator, joined: AgentMaker, clock: ManualClock
) -> None:
    agent = joined(clock=clock)
    agent.commit()
    clock.advance(250_000)
    agent.poll()

    agent.close()
    assert coordinator.count("commit") == 1


def test_failing_log_end_function_does_not_fail_poll(
    joined: AgentMaker, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(_: TopicPartition) -> int:
        raise OSError("the file is gone")

    agent = joined(end_offset_of=fails, clock=clock)
    agent.commit({ZERO: 1})
    clock.advance(60_000)

    assert ZERO in agent.poll()
    assert "could not be reported" in caplog.text


def test_reset_to_latest_starts_at_the_log_end_without_a_committed_offset(joined: AgentMaker) -> None:
    agent = joined(auto_offset_reset="latest", end_offset_of=lambda partition: 100 + partition.partition)

    assert dict(agent.poll()) == {ZERO: 100, ONE: 101, TWO: 102}


def test_reset_to_latest_waits_for_a_log_end_that_is_not_known(make_agent: AgentMaker) -> None:
    ends: dict[TopicPartition, int] = {ZERO: 100, ONE: 101}
    agent = make_agent(auto_offset_reset="latest", end_offset_of=ends.get)
    with pytest.raises(NoOffsetForPartition, match="and its log end offset is not known") as refused:
        agent.poll(PATIENCE_S)
    assert refused.value.partitions == (TWO,)
    ends[TWO] = 102

    assert dict(agent.poll()) == {ZERO: 100, ONE: 101, TWO: 102}


def test_reset_none_raises_without_a_committed_offset_until_a_seek(
    coordinator: FakeCoordinator, make_agent: AgentMaker
) -> None:
    put(coordinator, ONE, 41)
    agent = make_agent(auto_offset_reset="none")

    with pytest.raises(NoOffsetForPartition) as refused:
        agent.poll(PATIENCE_S)
    assert refused.value.partitions == (ZERO, TWO)
    with pytest.raises(NoOffsetForPartition):
        agent.position(ZERO)
    agent.seek(ZERO, 3)
    agent.seek(TWO, 4)
    assert dict(agent.poll()) == {ZERO: 3, ONE: 41, TWO: 4}


def test_seek_in_on_assigned_takes_precedence_over_the_reset(make_agent: AgentMaker) -> None:
    agents: list[ConsumerAgent] = []

    def begin_at_nine(partitions: tuple[TopicPartition, ...]) -> None:
        for partition in partitions:
            agents[0].seek(partition, 9)

    agents.append(make_agent(auto_offset_reset="none", on_assigned=begin_at_nine))

    assert dict(agents[0].poll(PATIENCE_S)) == {ZERO: 9, ONE: 9, TWO: 9}


def test_paused_partitions_are_kept_and_not_consumed(joined: AgentMaker) -> None:
    agent = joined()
    agent.pause([ONE])
    assert numbers(agent.poll()) == [0, 2]
    assert agent.assignment() == {ZERO, ONE, TWO}
    assert agent.paused() == {ONE}
    agent.resume([ONE])

    assert numbers(agent.poll()) == [0, 1, 2]


def test_unassigned_partition_is_rejected(joined: AgentMaker) -> None:
    agent = joined()
    unknown = TopicPartition("orders", 99)

    with pytest.raises(ValueError, match="orders-99 is not assigned"):
        agent.seek(unknown, 1)
    with pytest.raises(ValueError, match="orders-99 is not assigned"):
        agent.position(unknown)
    with pytest.raises(ValueError, match="orders-99 is not assigned"):
        agent.pause([ONE, unknown])
    assert agent.paused() == frozenset()


def test_negative_offset_is_rejected(joined: AgentMaker) -> None:
    agent = joined()

    with pytest.raises(ValueError, match="0 or more"):
        agent.seek(ONE, -1)
    with pytest.raises(ValueError, match="0 or more"):
        agent.commit({ONE: -1})


def test_result_of_poll_is_read_only(joined: AgentMaker) -> None:
    ready = joined().poll()

    with pytest.raises(TypeError):
        ready[ZERO] = 1  # type: ignore[index]


def test_a_leader_notices_that_a_topic_has_grown(
    coordinator: FakeCoordinator, joined: AgentMaker, clock: ManualClock
) -> None:
    agent = joined(clock=clock, metadata_max_age_ms=10_000)
    coordinator.topics["orders"]["partitions"] = 4
    agent.poll()
    assert coordinator.count("sync") == 1
    clock.advance(10_000)

    assert numbers(agent.poll(PATIENCE_S)) == [0, 1, 2, 3]
