"""The heartbeat thread, max_poll_interval_ms, close() and wakeup()."""

from __future__ import annotations

import logging
import ssl
import threading

import pytest

from agent import AgentClosed, ConsumerAgent, TopicPartition
from agent.core.runtime import HttpRequest, HttpResponse
from agent.threaded.http_client import Urllib3Client
from agent.threaded.runtime import ThreadRuntime
from tests.integration.agent.agents import AgentMaker, CallbackLog
from tests.support.fake_coordinator import Drop, FakeCoordinator, Hold, Problem, numbers
from tests.support.manual_clock import ManualClock
from tests.support.waiting import PATIENCE_S


def test_heartbeats_start_after_the_join_response(coordinator: FakeCoordinator, make_agent: AgentMaker) -> None:
    gate = threading.Event()
    coordinator.heartbeat_interval_ms = 5
    coordinator.next("sync", Hold(gate))
    agent = make_agent()
    agent.poll()
    coordinator.wait_for_calls("heartbeat", 2)
    gate.set()

    assert numbers(agent.poll(PATIENCE_S)) == [0, 1, 2]


def test_heartbeat_interval_follows_each_heartbeat_response(
    coordinator: FakeCoordinator, joined: AgentMaker, clock: ManualClock
) -> None:
    coordinator.heartbeat_interval_ms = 3_000
    joined(clock=clock)
    coordinator.heartbeat_interval_ms = 500
    clock.wait_for_sleeper("-heartbeat", (3_000, 3_000))
    beat(coordinator, clock, after_ms=3_000)
    clock.wait_for_sleeper("-heartbeat", (500, 500))


def test_shorter_configured_heartbeat_interval_is_kept(
    coordinator: FakeCoordinator, joined: AgentMaker, clock: ManualClock
) -> None:
    coordinator.heartbeat_interval_ms = 3_000
    joined(clock=clock, heartbeat_interval_ms=100)

    clock.wait_for_sleeper("-heartbeat", (100, 100))


def test_caller_slower_than_its_session_remains_a_member(
    coordinator: FakeCoordinator, joined: AgentMaker, clock: ManualClock, callback_log: CallbackLog
) -> None:
    agent = joined(clock=clock, session_timeout_ms=6_000, max_poll_interval_ms=60_000, **callback_log.callbacks())
    for _ in range(20):
        beat(coordinator, clock, after_ms=1_000)

    assert numbers(agent.poll()) == [0, 1, 2]
    assert callback_log.lines == [("assigned", [0, 1, 2])]


def test_a_caller_slower_than_max_poll_interval_leaves_and_joins_again(
    coordinator: FakeCoordinator, joined: AgentMaker, clock: ManualClock, callback_log: CallbackLog
) -> None:
    agent = joined(clock=clock, max_poll_interval_ms=60_000, client_id="me", **callback_log.callbacks())
    clock.advance(60_000)
    coordinator.wait_for_calls("leave", 1)

    [entry] = coordinator.bodies("leave")[0]["members"]
    assert entry["member_id"] == "me-1"
    assert "max_poll_interval_ms (60000)" in entry["reason"]
    assert agent.member_id == ""
    assert numbers(agent.poll(PATIENCE_S)) == [0, 1, 2]
    assert callback_log.lines == [("assigned", [0, 1, 2]), ("lost", [0, 1, 2]), ("assigned", [0, 1, 2])]
    assert agent.member_id == "me-2"


def test_leave_of_a_slow_caller_is_repeated_after_a_network_fault(
    coordinator: FakeCoordinator, joined: AgentMaker
) -> None:
    coordinator.next("leave", Drop(is_handled=False))
    joined(max_poll_interval_ms=500)

    coordinator.wait_for(lambda: coordinator.member_id == "")


def test_slow_static_member_stops_heartbeats_without_leaving(
    coordinator: FakeCoordinator, joined: AgentMaker, clock: ManualClock, callback_log: CallbackLog
) -> None:
    agent = joined(clock=clock, max_poll_interval_ms=60_000, group_instance_id="pod-0", **callback_log.callbacks())
    clock.advance(60_000)
    clock.wait_for_sleeper("-heartbeat")
    assert agent.member_id == ""
    clock.advance(60_000)
    clock.wait_for_sleeper("-heartbeat")

    assert coordinator.count("heartbeat") == 0
    assert coordinator.count("leave") == 0
    assert numbers(agent.poll(PATIENCE_S)) == [0, 1, 2]
    assert callback_log.lines[1:] == [("lost", [0, 1, 2]), ("assigned", [0, 1, 2])]
    assert [body["member_id"] for body in coordinator.bodies("join")] == ["", ""]


def test_assignment_lost_before_delivery_is_never_reported(
    coordinator: FakeCoordinator, make_agent: AgentMaker, clock: ManualClock, callback_log: CallbackLog
) -> None:
    agent = make_agent(clock=clock, client_id="me", **callback_log.callbacks())
    agent.poll()
    coordinator.wait_for_calls("query", 1)
    clock.wait_for_sleeper("-heartbeat", (1_000, 1_000))
    coordinator.forget_member()
    beat(coordinator, clock, after_ms=1_000)
    assert agent.member_id == ""
    assert agent.wait(PATIENCE_S)
    clock.advance(1)

    assert dict(agent.poll(PATIENCE_S)).keys() == agent.assignment()
    assert agent.member_id == "me-2"
    assert callback_log.lines == [("assigned", [0, 1, 2])]


def test_waiting_in_poll_does_not_exceed_max_poll_interval(
    coordinator: FakeCoordinator, make_agent: AgentMaker, clock: ManualClock
) -> None:
    coordinator.leader, coordinator.assigned = "other-member", []
    agent = make_agent(clock=clock, max_poll_interval_ms=60_000)
    caller = threading.Thread(target=agent.poll, kwargs={"timeout_s": 100}, name="caller")
    caller.start()
    coordinator.wait_for_calls("sync", 1)
    clock.wait_for_sleeper("caller")
    clock.wait_for_sleeper("-heartbeat")
    for _ in range(99):
        beat(coordinator, clock, after_ms=1_000)
    clock.wait_for_sleeper("caller")
    clock.advance(1_000)
    caller.join()

    assert coordinator.count("leave") == 0
    assert agent.generation == 1


def test_closing_leaves_with_a_reason_and_ends_the_heartbeats(
    coordinator: FakeCoordinator, joined: AgentMaker, callback_log: CallbackLog
) -> None:
    """One that waits for its response is aborted."""
    gate = threading.Event()
    coordinator.heartbeat_interval_ms = 5
    coordinator.next("heartbeat", Hold(gate))
    agent = joined(client_id="me", **callback_log.callbacks())
    coordinator.wait_for_calls("heartbeat", 1)
    agent.close()
    agent.close()
    running = {thread.name for thread in threading.enumerate()}
    gate.set()

    assert "me-heartbeat" not in running
    assert [body["members"][0]["reason"] for body in coordinator.bodies("leave")] == ["the consumer is closing"]
    assert coordinator.seen[-1].call == "leave"
    assert callback_log.lines == [("assigned", [0, 1, 2]), ("revoked", [0, 1, 2])]
    assert coordinator.count("commit") == 0
    assert agent.member_id == ""


@pytest.mark.parametrize(
    ("problem", "line"),
    [
        (Problem("GROUP_AUTHORIZATION_FAILED", 403, "fix"), "the leave was refused"),
        (Problem("COORDINATOR_NOT_AVAILABLE", 503, "retry"), "no response to the leave"),
    ],
)
def test_a_leave_that_fails_is_logged(
    coordinator: FakeCoordinator, joined: AgentMaker, caplog: pytest.LogCaptureFixture, problem: Problem, line: str
) -> None:
    caplog.set_level(logging.INFO, "muster.agent")
    agent = joined()
    coordinator.next("leave", *[problem] * 1_000)
    agent.close(timeout_s=0.05)

    assert [each for each in caplog.messages if "evicted when its session expires" in each and line in each]


def test_time_in_a_callback_is_not_taken_from_the_leave(make_agent: AgentMaker, clock: ManualClock) -> None:
    sent: list[HttpRequest] = []

    class RecordingClient(Urllib3Client):
        async def send(self, request: HttpRequest) -> HttpResponse:
            sent.append(request)
            return await super().send(request)

    class RecordingRuntime(ThreadRuntime):
        def new_http_client(self, ssl_context: ssl.SSLContext | None) -> Urllib3Client:
            return RecordingClient(ssl_context)

    agent = make_agent(runtime=RecordingRuntime(clock), on_revoked=lambda _: clock.advance(60_000))
    agent.poll(PATIENCE_S)
    agent.close(timeout_s=5)

    assert [request.timeout_ms for request in sent if request.url.endswith("/leave")] == [5_000]


def test_closing_a_static_member_does_not_leave_the_group(coordinator: FakeCoordinator, joined: AgentMaker) -> None:
    joined(group_instance_id="pod-0").close()

    assert coordinator.count("leave") == 0


def test_with_block_closes_the_agent_on_exit(coordinator: FakeCoordinator, joined: AgentMaker) -> None:
    with joined() as agent:
        pass

    assert coordinator.member_id == ""
    with pytest.raises(AgentClosed, match="closed"):
        agent.poll()


def test_close_completes_if_a_callback_raises(coordinator: FakeCoordinator, joined: AgentMaker) -> None:
    def refuse(_: object) -> None:
        raise LookupError("no slot")

    agent = joined(on_revoked=refuse)
    with pytest.raises(LookupError):
        agent.close()

    assert coordinator.member_id == ""


def test_close_in_a_forked_child_does_not_leave_the_group(
    coordinator: FakeCoordinator, joined: AgentMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = joined()
    with monkeypatch.context() as in_the_child:
        in_the_child.setattr("os.getpid", lambda: -1)
        agent.close()

    assert coordinator.count("leave") == 0
    assert numbers(agent.poll()) == [0, 1, 2]


def test_agent_made_before_a_fork_is_closed_by_the_child_that_uses_it(
    coordinator: FakeCoordinator, make_agent: AgentMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = make_agent()
    with monkeypatch.context() as in_the_child:
        in_the_child.setattr("os.getpid", lambda: -1)
        agent.poll(PATIENCE_S)
        agent.close()

    assert coordinator.count("leave") == 1


@pytest.mark.parametrize("timeout_s", [float("inf"), 1e300])
def test_infinite_timeout_is_accepted(coordinator: FakeCoordinator, make_agent: AgentMaker, timeout_s: float) -> None:
    coordinator.leader, coordinator.assigned = "other-member", []
    agent = make_agent()

    def wake() -> None:
        coordinator.wait_for_calls("sync", 1)
        agent.wakeup()

    waker = threading.Thread(target=wake)
    waker.start()

    assert dict(agent.poll(timeout_s)) == {}
    waker.join()


def test_nan_timeout_is_rejected(make_agent: AgentMaker) -> None:
    with pytest.raises(ValueError, match="timeout_s must be a number of seconds, and is nan"):
        make_agent().poll(float("nan"))


def test_agent_closed_by_its_callback_does_not_rejoin(coordinator: FakeCoordinator, make_agent: AgentMaker) -> None:
    agents: list[ConsumerAgent] = []
    agents.append(make_agent(on_assigned=lambda _: agents[0].close()))
    with pytest.raises(AgentClosed):
        agents[0].poll(PATIENCE_S)

    assert [seen.call for seen in coordinator.seen if seen.call in ("join", "leave")] == ["join", "join", "leave"]


def test_agent_that_never_polled_closes_without_requests(coordinator: FakeCoordinator, make_agent: AgentMaker) -> None:
    make_agent().close()

    assert coordinator.seen == []


def test_wakeup_interrupts_a_waiting_poll(coordinator: FakeCoordinator, make_agent: AgentMaker) -> None:
    coordinator.leader, coordinator.assigned = "other-member", []
    agent = make_agent()

    def wake() -> None:
        coordinator.wait_for_calls("sync", 1)
        agent.wakeup()

    waker = threading.Thread(target=wake)
    waker.start()

    assert dict(agent.poll(timeout_s=100)) == {}
    waker.join()


def test_poll_returns_at_once_after_an_earlier_wakeup(coordinator: FakeCoordinator, make_agent: AgentMaker) -> None:
    agent = make_agent()
    agent.wakeup()
    never = threading.Event()
    coordinator.next("join", Hold(never))

    assert dict(agent.poll(timeout_s=100)) == {}
    never.set()


def test_wait_reports_whether_there_is_work(coordinator: FakeCoordinator, joined: AgentMaker) -> None:
    agent = joined()

    assert agent.wait(timeout_s=0.01) is False
    agent.subscribe(["refunds"])
    assert agent.wait(PATIENCE_S) is True


def test_poll_without_partitions_ends_at_its_timeout(joined: AgentMaker, clock: ManualClock) -> None:
    agent = joined(clock=clock)
    agent.pause(agent.assignment())
    caller = threading.Thread(target=agent.poll, kwargs={"timeout_s": 5}, name="caller")
    caller.start()
    clock.wait_for_sleeper("caller", (5_000, 5_000))
    clock.advance(5_000)
    caller.join()

    assert agent.paused() == {TopicPartition("orders", number) for number in range(3)}


def beat(coordinator: FakeCoordinator, clock: ManualClock, *, after_ms: int) -> None:
    """Let one interval pass, and one heartbeat be answered."""
    before = coordinator.count("heartbeat")
    clock.advance(after_ms)
    coordinator.wait_for_calls("heartbeat", before + 1)
    clock.wait_for_sleeper("-heartbeat")
