"""Cooperative rebalances: partitions are kept during the rejoin, and only moved ones are revoked."""

from __future__ import annotations

import threading
from base64 import b64decode, b64encode
from contextlib import suppress

import pytest

from agent import AgentError, CommitFailed, ConsumerAgent, GroupMaxSizeReached, Member, TopicPartition
from agent.assignors.claims import Claim, owned_claim, remembered_claim, remembered_data
from tests.integration.agent.agents import PATIENT, REBALANCE, AgentMaker, CallbackLog, orders, poll_on, rebalance
from tests.support.fake_coordinator import FakeCoordinator, Hold, Problem, numbers
from tests.support.waiting import PATIENCE_S


def member_of_two(coordinator: FakeCoordinator, joined: AgentMaker, callback_log: CallbackLog) -> ConsumerAgent:
    coordinator.leader, coordinator.assigned = "other-member", orders(0, 1)
    coordinator.heartbeat_interval_ms = 5
    return joined(assignors=[PATIENT], **callback_log.callbacks())


def test_kept_partition_is_not_revoked_and_keeps_its_position(
    coordinator: FakeCoordinator, joined: AgentMaker, callback_log: CallbackLog
) -> None:
    agent = member_of_two(coordinator, joined, callback_log)
    agent.seek(TopicPartition("orders", 0), 77)
    rebalance(coordinator, agent, callback_log, 0, 1, 2)

    assert callback_log.lines == [("assigned", [0, 1]), ("assigned", [2])]
    assert agent.position(TopicPartition("orders", 0)) == 77
    assert coordinator.bodies("join")[-1]["protocols"][0]["metadata"]["owned_partitions"] == orders(0, 1)
    assert [body["partitions"] for body in coordinator.bodies("query")] == [orders(0, 1), orders(2)]


def test_partitions_are_sorted_whenever_they_came(
    coordinator: FakeCoordinator, joined: AgentMaker, callback_log: CallbackLog
) -> None:
    coordinator.leader, coordinator.assigned, coordinator.heartbeat_interval_ms = "other-member", orders(1), 5
    agent = joined(assignors=[PATIENT], **callback_log.callbacks())
    rebalance(coordinator, agent, callback_log, 0, 1)

    assert numbers(agent.poll()) == [0, 1]


def test_moved_partition_is_revoked_after_the_sync_and_a_second_join_follows(
    coordinator: FakeCoordinator, joined: AgentMaker, callback_log: CallbackLog
) -> None:
    agent = member_of_two(coordinator, joined, callback_log)
    rebalance(coordinator, agent, callback_log, 0)
    callback_log.until_assigned(agent, 3)

    assert callback_log.lines == [("assigned", [0, 1]), ("revoked", [1]), ("assigned", []), ("assigned", [])]
    assert coordinator.bodies("join")[-1]["protocols"][0]["metadata"]["owned_partitions"] == orders(0)
    assert numbers(agent.poll()) == [0]


def test_unsubscribed_topic_is_revoked_before_the_join(
    coordinator: FakeCoordinator, joined: AgentMaker, callback_log: CallbackLog
) -> None:
    agent = member_of_two(coordinator, joined, callback_log)
    coordinator.assigned = []
    agent.subscribe(["refunds"])
    callback_log.until_assigned(agent, 2)

    assert callback_log.lines == [("assigned", [0, 1]), ("revoked", [0, 1]), ("assigned", [])]
    assert coordinator.bodies("join")[-1]["protocols"][0]["metadata"]["owned_partitions"] == []


def test_member_removed_while_rejoining_loses_its_partitions(
    coordinator: FakeCoordinator, joined: AgentMaker, callback_log: CallbackLog
) -> None:
    agent = member_of_two(coordinator, joined, callback_log)
    coordinator.next("join", Problem("UNKNOWN_MEMBER_ID", 404, "rejoin"))
    rebalance(coordinator, agent, callback_log, 0, 1)

    assert callback_log.lines == [("assigned", [0, 1]), ("lost", [0, 1]), ("assigned", [0, 1])]


def test_closing_during_a_rejoin_loses_kept_partitions(
    coordinator: FakeCoordinator, joined: AgentMaker, callback_log: CallbackLog
) -> None:
    agent = member_of_two(coordinator, joined, callback_log)
    should_stop = threading.Event()
    coordinator.next("join", Hold(should_stop))
    coordinator.next("heartbeat", REBALANCE)
    while coordinator.count("join") < 3:
        agent.poll()
        agent.wait(timeout_s=0.05)
    agent.close(timeout_s=0.2)
    should_stop.set()

    assert callback_log.lines == [("assigned", [0, 1]), ("lost", [0, 1])]


def test_member_evicted_during_revocation_loses_the_rest(
    coordinator: FakeCoordinator, make_agent: AgentMaker, callback_log: CallbackLog
) -> None:
    coordinator.leader = "other-member"
    coordinator.assigned = [*orders(0), {"topic": "refunds", "partitions": [7]}]
    agents: list[ConsumerAgent] = []

    def commit_in_vain(partitions: tuple[TopicPartition, ...]) -> None:
        callback_log.callbacks()["on_revoked"](partitions)
        with suppress(CommitFailed):
            agents[0].commit()

    callbacks = callback_log.callbacks() | {"on_revoked": commit_in_vain}
    agents.append(make_agent(topics=["orders", "refunds"], assignors=[PATIENT], **callbacks))
    callback_log.until_assigned(agents[0], 1)
    coordinator.next("commit", Problem("UNKNOWN_MEMBER_ID", 404, "rejoin"))
    coordinator.assigned = orders(0)
    agents[0].subscribe(["orders"])
    callback_log.until_assigned(agents[0], 2)

    assert callback_log.lines == [("assigned", [0, 7]), ("revoked", [7]), ("lost", [0]), ("assigned", [0])]


def test_member_sends_its_last_assignment_to_sticky_assignors(
    coordinator: FakeCoordinator, joined: AgentMaker, callback_log: CallbackLog
) -> None:
    coordinator.leader, coordinator.assigned = "other-member", orders(0, 1)
    coordinator.heartbeat_interval_ms = 5
    agent = joined(assignors=["sticky", "cooperative-sticky"], **callback_log.callbacks())
    rebalance(coordinator, agent, callback_log, 0)

    had = (TopicPartition("orders", 0), TopicPartition("orders", 1))
    sticky, cooperative = [
        b64decode(protocol["metadata"]["user_data"]) for protocol in coordinator.bodies("join")[-1]["protocols"]
    ]
    assert remembered_claim(Member("m", (), user_data=sticky)) == Claim(had, generation=1)
    assert owned_claim(Member("m", (), user_data=cooperative)) == Claim((), generation=1)


def test_leader_of_a_sticky_group_gets_previous_assignments(coordinator: FakeCoordinator, joined: AgentMaker) -> None:
    remembered = remembered_data([TopicPartition("orders", 0), TopicPartition("orders", 2)], 1)
    metadata = {"topics": ["orders"], "owned_partitions": [], "user_data": b64encode(remembered).decode()}
    coordinator.others = [{"member_id": "other", "group_instance_id": None, "metadata": metadata}]
    agent = joined(assignors=["sticky"])

    assert numbers(agent.poll()) == [1]


def test_member_is_eager_if_one_of_its_assignors_is_eager(
    coordinator: FakeCoordinator, joined: AgentMaker, callback_log: CallbackLog
) -> None:
    coordinator.leader, coordinator.assigned = "other-member", orders(0, 1)
    coordinator.heartbeat_interval_ms = 5
    agent = joined(assignors=[PATIENT, "range"], **callback_log.callbacks())
    rebalance(coordinator, agent, callback_log, 0, 1)

    assert callback_log.lines == [("assigned", [0, 1]), ("revoked", [0, 1]), ("assigned", [0, 1])]


def test_auto_commit_stores_positions_before_cooperative_revocation(
    coordinator: FakeCoordinator, joined: AgentMaker, callback_log: CallbackLog
) -> None:
    stored: list[int] = []

    def look(partitions: tuple[TopicPartition, ...]) -> None:
        stored.extend(coordinator.offsets[each]["offset"] for each in partitions)

    coordinator.leader, coordinator.assigned = "other-member", orders(0, 1)
    coordinator.heartbeat_interval_ms = 5
    callbacks = callback_log.callbacks() | {"on_revoked": look}
    agent = joined(assignors=[PATIENT], enable_auto_commit=True, auto_commit_interval_ms=600_000, **callbacks)
    gate = threading.Event()
    coordinator.assigned = orders(0)
    coordinator.next("join", Hold(gate))
    coordinator.next("heartbeat", REBALANCE)
    while coordinator.count("join") < 3:
        agent.poll()
        agent.wait(timeout_s=0.05)
    agent.seek(TopicPartition("orders", 1), 60)
    gate.set()
    callback_log.until_assigned(agent, 2)

    assert stored == [60]


def test_raising_end_offset_of_does_not_prevent_revocation(
    coordinator: FakeCoordinator, joined: AgentMaker, callback_log: CallbackLog
) -> None:
    is_gone = False

    def end_offset_of(_: TopicPartition) -> int:
        if is_gone:
            raise FileNotFoundError("gone")
        return 100

    coordinator.leader, coordinator.assigned = "other-member", orders(0, 1)
    agent = joined(
        assignors=[PATIENT],
        enable_auto_commit=True,
        auto_commit_interval_ms=600_000,
        end_offset_of=end_offset_of,
        **callback_log.callbacks(),
    )
    coordinator.assigned = orders(0)
    agent.subscribe(["orders", "refunds"])
    agent.poll()
    agent.seek(TopicPartition("orders", 1), 60)
    is_gone = True
    with pytest.raises(FileNotFoundError):
        poll_on(agent)
    is_gone = False

    assert callback_log.lines == [("assigned", [0, 1]), ("revoked", [1]), ("assigned", [])]


def test_commit_that_the_join_has_overtaken_loses_no_partitions(
    coordinator: FakeCoordinator, joined: AgentMaker, callback_log: CallbackLog
) -> None:
    never, commit_gate, join_gate = threading.Event(), threading.Event(), threading.Event()
    coordinator.leader, coordinator.assigned = "other-member", orders(0, 1)
    agent = joined(assignors=[PATIENT], request_timeout_ms=100, **callback_log.callbacks())
    overtaken = Problem("ILLEGAL_GENERATION", 409, "rejoin")
    coordinator.next("commit", Hold(never), *[Hold(commit_gate, overtaken)] * 1_000)
    coordinator.next("join", Hold(join_gate))
    failed: list[AgentError | None] = []
    agent.commit(asynchronous=True, on_complete=lambda _, error: failed.append(error))
    agent.subscribe(["orders", "refunds"])
    agent.poll()
    coordinator.wait_for_calls("join", 3)
    coordinator.wait_for_calls("commit", 2)
    commit_gate.set()
    while not failed:
        agent.wait(PATIENCE_S)
        agent.poll()
    join_gate.set()
    never.set()
    callback_log.until_assigned(agent, 2)

    assert callback_log.lines == [("assigned", [0, 1]), ("assigned", [])]
    assert [type(error) for error in failed] == [CommitFailed]


def test_rejected_rejoin_loses_kept_partitions_at_once(
    coordinator: FakeCoordinator, joined: AgentMaker, callback_log: CallbackLog
) -> None:
    coordinator.leader, coordinator.assigned = "other-member", orders(0, 1)
    agent = joined(
        assignors=[PATIENT], retry_backoff_ms=600_000, retry_backoff_max_ms=600_000, **callback_log.callbacks()
    )
    coordinator.next("join", Problem("GROUP_MAX_SIZE_REACHED", 409, "fix"))
    agent.subscribe(["orders", "refunds"])
    with pytest.raises(GroupMaxSizeReached):
        poll_on(agent)

    assert callback_log.lines == [("assigned", [0, 1]), ("lost", [0, 1])]
    assert dict(agent.poll()) == {}
    assert agent.wait(timeout_s=0.01) is False


def test_member_removed_while_syncing_stops_reading(
    coordinator: FakeCoordinator, joined: AgentMaker, callback_log: CallbackLog
) -> None:
    agent = member_of_two(coordinator, joined, callback_log)
    never = threading.Event()
    coordinator.next("sync", Hold(never))
    agent.subscribe(["orders", "refunds"])
    agent.poll()
    coordinator.wait_for_calls("sync", 2)
    coordinator.next("heartbeat", Problem("UNKNOWN_MEMBER_ID", 404, "rejoin"))

    assert agent.wait(PATIENCE_S)
    assert dict(agent.poll()) == {}
    assert callback_log.lines == [("assigned", [0, 1]), ("lost", [0, 1])]
    never.set()
