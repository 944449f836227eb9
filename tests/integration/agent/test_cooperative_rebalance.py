"""With cooperative assignors a member keeps its partitions while it rejoins, and gives up only what is taken."""

from __future__ import annotations

import threading
from base64 import b64decode, b64encode
from contextlib import suppress

import pytest

from agent import CommitFailed, ConsumerAgent, GroupMaxSizeReached, Member, TopicPartition
from agent.assignors.claims import Claim, owned_claim, remembered_claim, remembered_data
from tests.integration.agent.agents import PATIENT, REBALANCE, AgentMaker, Diary, orders, poll_on, rebalance
from tests.support.fake_coordinator import FakeCoordinator, Hold, Problem, numbers
from tests.support.waiting import PATIENCE_S


def member_of_two(coordinator: FakeCoordinator, joined: AgentMaker, diary: Diary) -> ConsumerAgent:
    coordinator.leader, coordinator.assigned = "somebody-else", orders(0, 1)
    coordinator.heartbeat_interval_ms = 5
    return joined(assignors=[PATIENT], **diary.callbacks())


def test_what_is_kept_is_neither_revoked_nor_read_from_anew(
    coordinator: FakeCoordinator, joined: AgentMaker, diary: Diary
) -> None:
    agent = member_of_two(coordinator, joined, diary)
    agent.seek(TopicPartition("orders", 0), 77)
    rebalance(coordinator, agent, diary, 0, 1, 2)

    assert diary.lines == [("assigned", [0, 1]), ("assigned", [2])]
    assert agent.position(TopicPartition("orders", 0)) == 77
    assert coordinator.bodies("join")[-1]["protocols"][0]["metadata"]["owned_partitions"] == orders(0, 1)
    assert [body["partitions"] for body in coordinator.bodies("query")] == [orders(0, 1), orders(2)]


def test_what_is_taken_is_revoked_after_the_sync_and_a_second_join_follows(
    coordinator: FakeCoordinator, joined: AgentMaker, diary: Diary
) -> None:
    agent = member_of_two(coordinator, joined, diary)
    rebalance(coordinator, agent, diary, 0)
    diary.until_assigned(agent, 3)

    assert diary.lines == [("assigned", [0, 1]), ("revoked", [1]), ("assigned", []), ("assigned", [])]
    assert coordinator.bodies("join")[-1]["protocols"][0]["metadata"]["owned_partitions"] == orders(0)
    assert numbers(agent.poll()) == [0]


def test_a_topic_that_is_no_longer_wanted_is_revoked_before_the_join(
    coordinator: FakeCoordinator, joined: AgentMaker, diary: Diary
) -> None:
    agent = member_of_two(coordinator, joined, diary)
    coordinator.assigned = []
    agent.subscribe(["refunds"])
    diary.until_assigned(agent, 2)

    assert diary.lines == [("assigned", [0, 1]), ("revoked", [0, 1]), ("assigned", [])]
    assert coordinator.bodies("join")[-1]["protocols"][0]["metadata"]["owned_partitions"] == []


def test_a_member_put_out_while_it_rejoins_loses_what_it_had_kept(
    coordinator: FakeCoordinator, joined: AgentMaker, diary: Diary
) -> None:
    agent = member_of_two(coordinator, joined, diary)
    coordinator.next("join", Problem("UNKNOWN_MEMBER_ID", 404, "rejoin"))
    rebalance(coordinator, agent, diary, 0, 1)

    assert diary.lines == [("assigned", [0, 1]), ("lost", [0, 1]), ("assigned", [0, 1])]


def test_closing_in_the_midst_of_a_rejoin_loses_what_was_kept_through_it(
    coordinator: FakeCoordinator, joined: AgentMaker, diary: Diary
) -> None:
    agent = member_of_two(coordinator, joined, diary)
    is_over = threading.Event()
    coordinator.next("join", Hold(is_over))
    coordinator.next("heartbeat", REBALANCE)
    while coordinator.count("join") < 3:
        agent.poll()
        agent.wait(timeout_s=0.05)
    agent.close(timeout_s=0.2)
    is_over.set()

    assert diary.lines == [("assigned", [0, 1]), ("lost", [0, 1])]


def test_a_member_that_learns_while_giving_back_that_it_was_put_out_loses_the_rest(
    coordinator: FakeCoordinator, make_agent: AgentMaker, diary: Diary
) -> None:
    coordinator.leader = "somebody-else"
    coordinator.assigned = [*orders(0), {"topic": "refunds", "partitions": [7]}]
    agents: list[ConsumerAgent] = []

    def commit_in_vain(partitions: tuple[TopicPartition, ...]) -> None:
        diary.callbacks()["on_revoked"](partitions)
        with suppress(CommitFailed):
            agents[0].commit()

    callbacks = diary.callbacks() | {"on_revoked": commit_in_vain}
    agents.append(make_agent(topics=["orders", "refunds"], assignors=[PATIENT], **callbacks))
    diary.until_assigned(agents[0], 1)
    coordinator.next("commit", Problem("UNKNOWN_MEMBER_ID", 404, "rejoin"))
    coordinator.assigned = orders(0)
    agents[0].subscribe(["orders"])
    diary.until_assigned(agents[0], 2)

    assert diary.lines == [("assigned", [0, 7]), ("revoked", [7]), ("lost", [0]), ("assigned", [0])]


def test_a_member_tells_the_sticky_assignors_what_it_had_last(
    coordinator: FakeCoordinator, joined: AgentMaker, diary: Diary
) -> None:
    coordinator.leader, coordinator.assigned = "somebody-else", orders(0, 1)
    coordinator.heartbeat_interval_ms = 5
    agent = joined(assignors=["sticky", "cooperative-sticky"], **diary.callbacks())
    rebalance(coordinator, agent, diary, 0)

    had = (TopicPartition("orders", 0), TopicPartition("orders", 1))
    sticky, cooperative = [
        b64decode(protocol["metadata"]["user_data"]) for protocol in coordinator.bodies("join")[-1]["protocols"]
    ]
    assert remembered_claim(Member("m", (), user_data=sticky)) == Claim(had, generation=1)
    assert owned_claim(Member("m", (), user_data=cooperative)) == Claim((), generation=1)


def test_the_leader_of_a_sticky_group_is_told_what_others_had(coordinator: FakeCoordinator, joined: AgentMaker) -> None:
    remembered = remembered_data([TopicPartition("orders", 0), TopicPartition("orders", 2)], 1)
    metadata = {"topics": ["orders"], "owned_partitions": [], "user_data": b64encode(remembered).decode()}
    coordinator.others = [{"member_id": "other", "group_instance_id": None, "metadata": metadata}]
    agent = joined(assignors=["sticky"])

    assert numbers(agent.poll()) == [1]


def test_one_eager_assignor_among_those_offered_makes_the_member_eager(
    coordinator: FakeCoordinator, joined: AgentMaker, diary: Diary
) -> None:
    coordinator.leader, coordinator.assigned = "somebody-else", orders(0, 1)
    coordinator.heartbeat_interval_ms = 5
    agent = joined(assignors=[PATIENT, "range"], **diary.callbacks())
    rebalance(coordinator, agent, diary, 0, 1)

    assert diary.lines == [("assigned", [0, 1]), ("revoked", [0, 1]), ("assigned", [0, 1])]


def test_auto_commit_stores_how_far_a_partition_is_before_it_is_revoked(
    coordinator: FakeCoordinator, joined: AgentMaker, diary: Diary
) -> None:
    stored: list[int] = []

    def look(partitions: tuple[TopicPartition, ...]) -> None:
        stored.extend(coordinator.offsets[each]["offset"] for each in partitions)

    coordinator.leader, coordinator.assigned = "somebody-else", orders(0, 1)
    coordinator.heartbeat_interval_ms = 5
    callbacks = diary.callbacks() | {"on_revoked": look}
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
    diary.until_assigned(agent, 2)

    assert stored == [60]


def test_an_end_that_is_not_known_when_partitions_go_keeps_none_from_being_revoked(
    coordinator: FakeCoordinator, joined: AgentMaker, diary: Diary
) -> None:
    is_gone = False

    def end_offset_of(_: TopicPartition) -> int:
        if is_gone:
            raise FileNotFoundError("gone")
        return 100

    coordinator.leader, coordinator.assigned = "somebody-else", orders(0, 1)
    agent = joined(
        assignors=[PATIENT],
        enable_auto_commit=True,
        auto_commit_interval_ms=600_000,
        end_offset_of=end_offset_of,
        **diary.callbacks(),
    )
    coordinator.assigned = orders(0)
    agent.subscribe(["orders", "refunds"])
    agent.poll()
    agent.seek(TopicPartition("orders", 1), 60)
    is_gone = True
    with pytest.raises(FileNotFoundError):
        poll_on(agent)
    is_gone = False

    assert diary.lines == [("assigned", [0, 1]), ("revoked", [1]), ("assigned", [])]


def test_a_member_that_may_not_rejoin_loses_what_it_had_kept_at_once(
    coordinator: FakeCoordinator, joined: AgentMaker, diary: Diary
) -> None:
    coordinator.leader, coordinator.assigned = "somebody-else", orders(0, 1)
    agent = joined(assignors=[PATIENT], retry_backoff_ms=600_000, retry_backoff_max_ms=600_000, **diary.callbacks())
    coordinator.next("join", Problem("GROUP_MAX_SIZE_REACHED", 409, "fix"))
    agent.subscribe(["orders", "refunds"])
    with pytest.raises(GroupMaxSizeReached):
        poll_on(agent)

    assert diary.lines == [("assigned", [0, 1]), ("lost", [0, 1])]
    assert dict(agent.poll()) == {}
    assert agent.wait(timeout_s=0.01) is False


def test_a_member_put_out_while_its_sync_waits_reads_on_no_longer(
    coordinator: FakeCoordinator, joined: AgentMaker, diary: Diary
) -> None:
    agent = member_of_two(coordinator, joined, diary)
    never = threading.Event()
    coordinator.next("sync", Hold(never))
    agent.subscribe(["orders", "refunds"])
    agent.poll()
    coordinator.wait_for_calls("sync", 2)
    coordinator.next("heartbeat", Problem("UNKNOWN_MEMBER_ID", 404, "rejoin"))

    assert agent.wait(PATIENCE_S)
    assert dict(agent.poll()) == {}
    assert diary.lines == [("assigned", [0, 1]), ("lost", [0, 1])]
    never.set()
