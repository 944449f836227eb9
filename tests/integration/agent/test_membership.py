"""Joining, syncing, rebalancing and leaving, with every error of the coordinator."""

from __future__ import annotations

import threading
from base64 import b64encode
from collections.abc import Mapping, Sequence

import pytest

from agent import Assignor, ConsumerAgent, FencedInstanceId, GroupMaxSizeReached, Member, RequestError, TopicPartition
from agent.errors import InconsistentGroupProtocol, NotAuthorized
from tests.integration.agent.agents import REBALANCE, AgentMaker, CallbackLog, orders, poll_on
from tests.support.fake_coordinator import FakeCoordinator, Hold, Problem, numbers
from tests.support.waiting import PATIENCE_S

UNKNOWN = Problem("UNKNOWN_MEMBER_ID", 404, "rejoin")
OLD_GENERATION = Problem("ILLEGAL_GENERATION", 409, "rejoin")
FENCED = Problem("FENCED_INSTANCE_ID", 409, "fix")


def test_a_first_poll_joins_and_returns_all_partitions_from_their_beginning(
    coordinator: FakeCoordinator, make_agent: AgentMaker, callback_log: CallbackLog
) -> None:
    coordinator.topics["orders"]["log_start_offset"] = 7
    agent = make_agent(client_id="consumer-billing-x", **callback_log.callbacks())

    assert dict(agent.poll(PATIENCE_S)) == {TopicPartition("orders", number): 7 for number in range(3)}
    assert agent.assignment() == {TopicPartition("orders", number) for number in range(3)}
    assert agent.generation == 1
    assert agent.member_id == "consumer-billing-x-1"
    assert callback_log.lines == [("assigned", [0, 1, 2])]


def test_second_join_request_carries_the_issued_member_id(coordinator: FakeCoordinator, joined: AgentMaker) -> None:
    joined(client_id="consumer-billing-x", session_timeout_ms=12_000, max_poll_interval_ms=70_000)

    first, second = coordinator.bodies("join")
    assert (first["member_id"], second["member_id"]) == ("", "consumer-billing-x-1")
    assert second["client_id"] == "consumer-billing-x"
    assert second["session_timeout_ms"] == 12_000
    assert second["rebalance_timeout_ms"] == 70_000
    assert second["protocol_type"] == "consumer"
    assert second["max_wait_ms"] == 20_000
    no_generation = b64encode((-1).to_bytes(4, "big", signed=True)).decode()
    assert second["protocols"] == [
        {"name": name, "metadata": {"topics": ["orders"], "owned_partitions": [], "user_data": user_data}}
        for name, user_data in (("range", None), ("cooperative-sticky", no_generation))
    ]


def test_a_static_member_joins_with_one_request(coordinator: FakeCoordinator, joined: AgentMaker) -> None:
    joined(group_instance_id="pod-0")

    assert [body["group_instance_id"] for body in coordinator.bodies("join")] == ["pod-0"]


def test_a_leader_assigns_by_range_for_all_members(coordinator: FakeCoordinator, joined: AgentMaker) -> None:
    coordinator.others = [
        {"member_id": "zz", "group_instance_id": None, "metadata": {"topics": ["orders"]}},
        {"member_id": "opaque", "group_instance_id": None, "metadata": "AAE="},
        {"member_id": "elsewhere", "group_instance_id": None, "metadata": {"topics": ["refunds", "ghosts"]}},
    ]
    coordinator.topics["refunds"] = {"partitions": 1}
    agent = joined()

    assert numbers(agent.poll()) == [0, 1]
    assert coordinator.given["zz"]["partitions"] == [{"topic": "orders", "partitions": [2]}]
    assert coordinator.given["opaque"]["partitions"] == []
    assert coordinator.given["elsewhere"]["partitions"] == [{"topic": "refunds", "partitions": [0]}]


def test_custom_assignor_gets_topics_with_partitions(coordinator: FakeCoordinator, make_agent: AgentMaker) -> None:
    asked: list[tuple[dict[str, int], list[str]]] = []

    def give_nothing(counts: Mapping[str, int], members: Sequence[Member]) -> dict[str, list[TopicPartition]]:
        asked.append((dict(counts), [member.member_id for member in members]))
        return {}

    make_agent(topics=["orders", "ghosts"], assignors=[Assignor("mean", give_nothing)], client_id="me").poll()
    coordinator.wait_for_calls("sync", 1)

    assert asked == [({"orders": 3}, ["me-1"])]


def test_follower_sends_no_assignment_and_applies_its_own(coordinator: FakeCoordinator, joined: AgentMaker) -> None:
    coordinator.leader = "other-member"
    coordinator.assigned = [{"topic": "orders", "partitions": [1]}]
    agent = joined()

    assert numbers(agent.poll()) == [1]
    assert [body["assignments"] for body in coordinator.bodies("sync")] == [[]]


def test_leader_that_skips_the_assignment_sends_none(coordinator: FakeCoordinator, joined: AgentMaker) -> None:
    coordinator.assigned = [{"topic": "orders", "partitions": [2]}]
    coordinator.skips_assignment = True
    agent = joined(group_instance_id="pod-0")

    assert numbers(agent.poll()) == [2]
    assert [body["assignments"] for body in coordinator.bodies("sync")] == [[]]


def test_token_is_sent_with_every_request(coordinator: FakeCoordinator, joined: AgentMaker) -> None:
    joined(token="s3cret").close()  # of no use anywhere

    assert {seen.headers["Authorization"] for seen in coordinator.seen} == {"Bearer s3cret"}
    assert {"join", "sync", "topics", "query", "leave"} <= {seen.call for seen in coordinator.seen}


@pytest.mark.parametrize("nothing", [None, "", {"partitions": [], "user_data": None}])
def test_member_without_partitions_is_assigned_none(
    coordinator: FakeCoordinator, make_agent: AgentMaker, callback_log: CallbackLog, nothing: object
) -> None:
    coordinator.leader, coordinator.answers["sync"] = "other-member", {"assignment": nothing}
    agent = make_agent(**callback_log.callbacks())
    callback_log.until_assigned(agent, 1)

    assert dict(agent.poll()) == {}
    assert callback_log.lines == [("assigned", [])]


def test_partitions_of_is_used_for_topics_without_metadata(coordinator: FakeCoordinator, joined: AgentMaker) -> None:
    agent = joined(topics=["orders", "files"], partitions_of={"files": 2, "orders": 99}.__getitem__)

    assert [str(each) for each in agent.poll()] == ["files-0", "files-1", "orders-0", "orders-1", "orders-2"]


def test_error_of_the_caller_is_not_sent_to_the_coordinator(
    coordinator: FakeCoordinator, make_agent: AgentMaker
) -> None:
    def refuse(_: str) -> int:
        raise ConnectionError("no database at postgresql://me:s3cret@db/files")

    agent = make_agent(topics=["files"], partitions_of=refuse)
    for _ in range(2):
        with pytest.raises(ConnectionError):
            agent.poll(PATIENCE_S)

    assert {body["reason"] for body in coordinator.bodies("join")} == {
        "joining",
        "the rebalance failed: ConnectionError",
    }


class Two:
    """A whole number of another kind, such as numpy's."""

    def __index__(self) -> int:
        return 2


def test_partition_count_may_be_an_integer_of_another_type_or_not_known(
    joined: AgentMaker, caplog: pytest.LogCaptureFixture
) -> None:
    agent = joined(topics=["files", "mails"], partitions_of={"files": Two()}.get)

    assert [str(each) for each in agent.poll()] == ["files-0", "files-1"]
    assert "topic mails has no topic metadata, so no partitions are assigned" in caplog.messages


@pytest.mark.parametrize("count", [2.0, "2", True])
def test_partition_count_of_another_type_is_rejected(make_agent: AgentMaker, count: object) -> None:
    agent = make_agent(topics=["files"], partitions_of=lambda _: count)

    with pytest.raises(ValueError, match="the partition count of files must be a whole number, and is"):
        agent.poll(PATIENCE_S)


NOT_FOR_AGENTS = Problem("GROUP_AUTHORIZATION_FAILED", 403, "fix")


def test_unreadable_topic_metadata_is_ignored_with_partitions_of(
    coordinator: FakeCoordinator, make_agent: AgentMaker
) -> None:
    coordinator.next("topics", NOT_FOR_AGENTS, NOT_FOR_AGENTS)
    agent = make_agent(partitions_of=lambda _: 2)

    assert numbers(agent.poll(PATIENCE_S)) == [0, 1]


def test_unreadable_topic_metadata_is_raised_without_partitions_of(
    coordinator: FakeCoordinator, make_agent: AgentMaker
) -> None:
    coordinator.next("topics", NOT_FOR_AGENTS)
    agent = make_agent()

    with pytest.raises(NotAuthorized):
        agent.poll(PATIENCE_S)
    assert numbers(agent.poll(PATIENCE_S)) == [0, 1, 2]


def test_poll_raises_the_error_of_partitions_of(make_agent: AgentMaker) -> None:
    agent = make_agent(topics=["files"], partitions_of=int)

    with pytest.raises(ValueError, match="invalid literal"):
        agent.poll(PATIENCE_S)


def test_expired_join_long_poll_is_repeated_with_the_issued_id(
    coordinator: FakeCoordinator, joined: AgentMaker
) -> None:
    still = Problem("REBALANCE_IN_PROGRESS", 409, "retry", {"member_id": "pod-0-1"})
    coordinator.member_id = "pod-0-1"
    coordinator.next("join", still, still, still)
    agent = joined(group_instance_id="pod-0")

    assert [body["member_id"] for body in coordinator.bodies("join")] == ["", "pod-0-1", "pod-0-1", "pod-0-1"]
    assert agent.member_id == "pod-0-1"


def test_expired_sync_long_poll_is_repeated(coordinator: FakeCoordinator, joined: AgentMaker) -> None:
    coordinator.next("sync", Problem("REBALANCE_IN_PROGRESS", 409, "retry"))
    joined()

    assert coordinator.count("sync") == 2
    assert coordinator.count("join") == 2


@pytest.mark.parametrize(
    ("problem", "member_ids"),
    [
        (REBALANCE, ["", "me-1", "me-1"]),
        (OLD_GENERATION, ["", "me-1", "me-1"]),
        (UNKNOWN, ["", "me-1", "", "me-2"]),
    ],
)
def test_rejected_sync_rejoins_without_a_callback(
    coordinator: FakeCoordinator, joined: AgentMaker, callback_log: CallbackLog, problem: Problem, member_ids: list[str]
) -> None:
    coordinator.next("sync", problem)
    joined(client_id="me", **callback_log.callbacks())

    assert [body["member_id"] for body in coordinator.bodies("join")] == member_ids
    assert callback_log.lines == [("assigned", [0, 1, 2])]


@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
@pytest.mark.parametrize("call", ["query", "topics"])
def test_member_that_cannot_read_its_offsets_takes_part_in_the_next_rebalance(
    coordinator: FakeCoordinator, joined: AgentMaker, callback_log: CallbackLog, call: str, assignor: str
) -> None:
    """The other members would wait for it until its rebalance timeout."""
    coordinator.heartbeat_interval_ms = 5
    coordinator.leader, coordinator.assigned = "other-member", orders(0)
    agent = joined(assignors=[assignor], **callback_log.callbacks())
    calls, joins = coordinator.count(call), coordinator.count("join")
    coordinator.next(call, *[Problem("COORDINATOR_NOT_AVAILABLE", 503, "retry")] * 100_000)
    coordinator.assigned = orders(0, 1)
    coordinator.next("heartbeat", REBALANCE)
    while coordinator.count(call) == calls:
        agent.poll()
        agent.wait(timeout_s=0.05)
    coordinator.next("heartbeat", REBALANCE)
    coordinator.wait_for_calls("join", joins + 2)
    coordinator._faults[call].clear()
    callback_log.until_assigned(agent, 2)

    assert numbers(agent.poll()) == [0, 1]
    assert callback_log.count("lost") == 0


def test_join_rejected_as_unknown_restarts_without_member_id(coordinator: FakeCoordinator, joined: AgentMaker) -> None:
    anything = Problem("MEMBER_ID_REQUIRED", 409, "rejoin", {"member_id": "expired"})
    coordinator.next("join", anything)
    joined(client_id="me")

    assert [body["member_id"] for body in coordinator.bodies("join")] == ["", "expired", "", "me-1"]


def test_eager_rebalance_revokes_all_partitions_before_the_join(
    coordinator: FakeCoordinator, joined: AgentMaker, callback_log: CallbackLog
) -> None:
    coordinator.heartbeat_interval_ms = 5
    agent = joined(client_id="me", **callback_log.callbacks())
    coordinator.next("heartbeat", REBALANCE)
    callback_log.until_assigned(agent, 2)

    assert callback_log.lines == [("assigned", [0, 1, 2]), ("revoked", [0, 1, 2]), ("assigned", [0, 1, 2])]
    assert coordinator.bodies("join")[-1]["member_id"] == "me-1"
    assert "rebalancing" in coordinator.bodies("join")[-1]["reason"]


def test_idle_member_gets_every_rebalance(
    coordinator: FakeCoordinator, make_agent: AgentMaker, callback_log: CallbackLog
) -> None:
    coordinator.leader, coordinator.assigned = "other-member", []
    coordinator.heartbeat_interval_ms = 5
    agent = make_agent(**callback_log.callbacks())
    callback_log.until_assigned(agent, 1)
    coordinator.next("heartbeat", REBALANCE)
    callback_log.until_assigned(agent, 2)

    assert callback_log.lines == [("assigned", []), ("revoked", []), ("assigned", [])]


@pytest.mark.parametrize(("problem", "member_ids"), [(UNKNOWN, ["", "me-2"]), (OLD_GENERATION, ["me-1"])])
def test_evicted_member_loses_its_partitions_and_rejoins(
    coordinator: FakeCoordinator, joined: AgentMaker, callback_log: CallbackLog, problem: Problem, member_ids: list[str]
) -> None:
    coordinator.heartbeat_interval_ms = 5
    agent = joined(client_id="me", **callback_log.callbacks())
    coordinator.next("heartbeat", problem)
    callback_log.until_assigned(agent, 2)

    assert callback_log.lines == [("assigned", [0, 1, 2]), ("lost", [0, 1, 2]), ("assigned", [0, 1, 2])]
    assert [body["member_id"] for body in coordinator.bodies("join")[2:]] == member_ids


def test_fenced_agent_loses_its_partitions_and_every_poll_raises(
    coordinator: FakeCoordinator, joined: AgentMaker, callback_log: CallbackLog
) -> None:
    coordinator.heartbeat_interval_ms = 5
    agent = joined(group_instance_id="pod-0", **callback_log.callbacks())
    coordinator.next("heartbeat", FENCED)
    assert agent.wait(PATIENCE_S)

    for _ in range(2):
        with pytest.raises(FencedInstanceId):
            agent.poll()
    with pytest.raises(FencedInstanceId):
        agent.commit({TopicPartition("orders", 0): 1})
    assert callback_log.lines == [("assigned", [0, 1, 2]), ("lost", [0, 1, 2])]
    assert coordinator.count("join") == 1


def test_error_of_a_fenced_agent_does_not_grow(coordinator: FakeCoordinator, make_agent: AgentMaker) -> None:
    coordinator.next("join", FENCED)
    agent = make_agent(group_instance_id="pod-0")
    frames = []
    for _ in range(3):
        for call in (lambda: agent.poll(PATIENCE_S), lambda: agent.commit({TopicPartition("orders", 0): 1})):
            with pytest.raises(FencedInstanceId) as raised:
                call()
            frames.append(len(raised.traceback))

    assert frames[4:] == frames[2:4]


@pytest.mark.parametrize("problem", [FENCED, Problem("GROUP_AUTHORIZATION_FAILED", 403, "fix")])
def test_interrupt_in_on_lost_is_raised(coordinator: FakeCoordinator, joined: AgentMaker, problem: Problem) -> None:
    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    coordinator.heartbeat_interval_ms = 5
    agent = joined(group_instance_id="pod-0", on_lost=interrupt)
    coordinator.next("heartbeat", problem)
    assert agent.wait(PATIENCE_S)

    with pytest.raises(KeyboardInterrupt):
        agent.poll()


def test_fatal_heartbeat_error_loses_partitions_and_next_poll_rejoins(
    coordinator: FakeCoordinator, joined: AgentMaker, callback_log: CallbackLog
) -> None:
    coordinator.heartbeat_interval_ms = 5
    agent = joined(**callback_log.callbacks())
    coordinator.next("heartbeat", Problem("GROUP_AUTHORIZATION_FAILED", 403, "fix"))
    assert agent.wait(PATIENCE_S)

    with pytest.raises(NotAuthorized):
        agent.poll()
    assert numbers(agent.poll(PATIENCE_S)) == [0, 1, 2]
    assert callback_log.lines == [("assigned", [0, 1, 2]), ("lost", [0, 1, 2]), ("assigned", [0, 1, 2])]
    assert coordinator.bodies("join")[-1]["member_id"] == coordinator.bodies("join")[-2]["member_id"]


@pytest.mark.parametrize(("call", "topics"), [("heartbeat", ["orders"]), ("join", ["refunds"]), ("sync", ["refunds"])])
def test_member_leaves_after_a_fatal_error(
    coordinator: FakeCoordinator, joined: AgentMaker, call: str, topics: list[str]
) -> None:
    coordinator.heartbeat_interval_ms = 5
    agent = joined()
    coordinator.next(call, Problem("GROUP_AUTHORIZATION_FAILED", 403, "fix"))
    agent.subscribe(topics)
    with pytest.raises(NotAuthorized):
        poll_on(agent)
    agent.close()

    assert coordinator.member_id == ""


@pytest.mark.parametrize("call", ["join", "sync"])
def test_fenced_join_or_sync_ends_the_membership(
    coordinator: FakeCoordinator, make_agent: AgentMaker, call: str
) -> None:
    coordinator.next(call, FENCED)
    agent = make_agent(group_instance_id="pod-0")

    for _ in range(2):
        with pytest.raises(FencedInstanceId):
            agent.poll(PATIENCE_S)


@pytest.mark.parametrize(
    ("problem", "error"),
    [
        (Problem("GROUP_MAX_SIZE_REACHED", 409, "fix"), GroupMaxSizeReached),
        (Problem("INCONSISTENT_GROUP_PROTOCOL", 409, "fix"), InconsistentGroupProtocol),
        (Problem("GROUP_AUTHORIZATION_FAILED", 403, "fix"), NotAuthorized),
        (Problem("", 401, ""), NotAuthorized),
        (Problem("A_NEW_KIND_OF_REFUSAL", 409, "fix"), RequestError),
    ],
)
def test_poll_raises_a_rejected_join_and_the_next_poll_retries(
    coordinator: FakeCoordinator, make_agent: AgentMaker, problem: Problem, error: type[Exception]
) -> None:
    coordinator.next("join", problem)
    agent = make_agent()

    with pytest.raises(error):
        agent.poll(PATIENCE_S)
    assert numbers(agent.poll(PATIENCE_S)) == [0, 1, 2]


def test_new_subscription_rejoins_at_the_next_poll(
    coordinator: FakeCoordinator, joined: AgentMaker, callback_log: CallbackLog
) -> None:
    coordinator.topics["refunds"] = {"partitions": 1}
    agent = joined(**callback_log.callbacks())
    agent.subscribe(["refunds"])

    assert [str(each) for each in agent.poll(PATIENCE_S)] == ["refunds-0"]
    assert callback_log.lines == [("assigned", [0, 1, 2]), ("revoked", [0, 1, 2]), ("assigned", [0])]


def test_subscription_changed_during_a_join_rejoins_after_it(
    coordinator: FakeCoordinator, make_agent: AgentMaker, callback_log: CallbackLog
) -> None:
    coordinator.topics["refunds"] = {"partitions": 1}
    gate = threading.Event()
    coordinator.next("sync", Hold(gate, then=REBALANCE))
    agent = make_agent(**callback_log.callbacks())
    agent.poll()
    coordinator.wait_for_calls("sync", 1)
    agent.subscribe(["refunds"])
    gate.set()
    callback_log.until_assigned(agent, 2)

    assert [str(each) for each in agent.assignment()] == ["refunds-0"]


def test_the_same_subscription_again_changes_nothing(coordinator: FakeCoordinator, joined: AgentMaker) -> None:
    agent = joined()
    agent.subscribe(["orders", "orders"])

    assert numbers(agent.poll()) == [0, 1, 2]
    assert coordinator.count("sync") == 1


def test_unsubscribe_revokes_and_leaves_and_subscribe_rejoins(
    coordinator: FakeCoordinator, joined: AgentMaker, callback_log: CallbackLog
) -> None:
    agent = joined(**callback_log.callbacks())
    agent.unsubscribe()

    assert coordinator.member_id == ""
    assert agent.member_id == ""
    assert agent.assignment() == frozenset()
    assert callback_log.lines[1:] == [("revoked", [0, 1, 2])]
    with pytest.raises(RequestError, match="subscribe"):
        agent.poll()
    agent.subscribe(["orders"])
    assert numbers(agent.poll(PATIENCE_S)) == [0, 1, 2]


def test_subscription_of_a_callback_of_unsubscribe_is_kept(make_agent: AgentMaker) -> None:
    agent: ConsumerAgent = make_agent(on_revoked=lambda _: agent.subscribe(["orders"]))
    agent.poll(PATIENCE_S)

    agent.unsubscribe()

    assert numbers(agent.poll(PATIENCE_S)) == [0, 1, 2]


def test_unsubscribe_completes_if_a_callback_raises(coordinator: FakeCoordinator, joined: AgentMaker) -> None:
    def refuse(_: object) -> None:
        raise LookupError("no slot")

    agent = joined(on_revoked=refuse)
    with pytest.raises(LookupError):
        agent.unsubscribe()

    assert coordinator.member_id == ""
    with pytest.raises(RequestError, match="subscribe"):
        agent.poll()


def test_thread_that_fails_to_start_is_started_at_the_next_poll(
    make_agent: AgentMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, failures = threading.Thread.start, [RuntimeError("can't start new thread")]

    def fail_once(thread: threading.Thread) -> None:
        if thread.name.endswith("-round") and failures:
            raise failures.pop()
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", fail_once)
    agent = make_agent()
    with pytest.raises(RuntimeError, match="can't start"):
        agent.poll(PATIENCE_S)

    assert numbers(agent.poll(PATIENCE_S)) == [0, 1, 2]


def test_poll_raises_callback_error_and_membership_continues(
    coordinator: FakeCoordinator, make_agent: AgentMaker
) -> None:
    def refuse(_: object) -> None:
        raise LookupError("no slot")

    agent = make_agent(on_assigned=refuse)

    with pytest.raises(LookupError, match="no slot"):
        agent.poll(PATIENCE_S)
    assert numbers(agent.poll()) == [0, 1, 2]
    assert coordinator.count("sync") == 1
