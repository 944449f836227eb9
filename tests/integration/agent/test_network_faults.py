"""Lost requests and responses, unavailable nodes and wrong nodes at each point of the protocol."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable
from contextlib import suppress

import pytest

from agent import CommitFailed, ConsumerAgent, RequestError, RetryError, TopicPartition
from agent.core.connection import Connection
from agent.core.node_selector import NodeSelector
from agent.core.responses import parse_topics
from agent.core.runtime import HttpRequest, NoResponse, run_blocking
from agent.errors import Unreachable
from agent.threaded.http_client import POOLS_MAX, Urllib3Client
from tests.integration.agent.agents import AgentMaker, CallbackLog
from tests.support.fake_coordinator import Drop, FakeCoordinator, Fault, Hold, Problem, Raw, numbers
from tests.support.manual_clock import ManualClock
from tests.support.ports import free_port
from tests.support.waiting import PATIENCE_S

LOST_ON_THE_WAY = Drop(is_handled=False)
LOST_ON_THE_WAY_BACK = Drop(is_handled=True)
UNAVAILABLE = Problem("COORDINATOR_NOT_AVAILABLE", 503, "retry")
LOADING = Problem("COORDINATOR_LOAD_IN_PROGRESS", 503, "retry")
BUSY = Problem("THROTTLING_QUOTA_EXCEEDED", 429, "retry", headers={"Retry-After": "0"})
BUSY_FOR_EVER = Problem("THROTTLING_QUOTA_EXCEEDED", 429, "retry", headers={"Retry-After": "inf"})
MOVED = Problem("NOT_COORDINATOR", 421, "retry")
NOT_OURS = Raw(502, b"<html>Bad Gateway</html>")
NONSENSE = Raw(200, b'{"hello": "world"}')
NOT_JSON = Raw(200, b"<html>Welcome</html>")

FAULTS: dict[str, Fault] = {
    "the request is lost": LOST_ON_THE_WAY,
    "the answer is lost": LOST_ON_THE_WAY_BACK,
    "no coordinator": UNAVAILABLE,
    "the group is loading": LOADING,
    "the node is busy": BUSY,
    "a proxy names no time": BUSY_FOR_EVER,
    "the group has moved to an unknown node": MOVED,
    "a proxy answers": NOT_OURS,
    "an answer holds something else": NONSENSE,
    "an answer is no JSON": NOT_JSON,
}


@pytest.mark.parametrize("call", ["join", "sync", "query", "topics"])
@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS.keys())
def test_join_is_repeated_after_network_faults(
    coordinator: FakeCoordinator, make_agent: AgentMaker, callback_log: CallbackLog, fault: Fault, call: str, times: int
) -> None:
    coordinator.next(call, *[fault] * times)
    agent = make_agent(**callback_log.callbacks())

    assert numbers(agent.poll(PATIENCE_S)) == [0, 1, 2]
    assert callback_log.lines == [("assigned", [0, 1, 2])]


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS.keys())
def test_join_with_issued_member_id_is_repeated_after_network_faults(
    coordinator: FakeCoordinator, make_agent: AgentMaker, fault: Fault
) -> None:
    given = Problem("MEMBER_ID_REQUIRED", 409, "rejoin", {"member_id": "me-0"})
    coordinator._pending.add("me-0")
    coordinator.next("join", given, fault)
    agent = make_agent(client_id="me")

    assert numbers(agent.poll(PATIENCE_S)) == [0, 1, 2]
    assert {body["member_id"] for body in coordinator.bodies("join")} == {"", "me-0"}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS.keys())
def test_heartbeats_continue_after_network_faults(
    coordinator: FakeCoordinator, joined: AgentMaker, callback_log: CallbackLog, fault: Fault
) -> None:
    coordinator.heartbeat_interval_ms = 5
    agent = joined(**callback_log.callbacks())
    coordinator.next("heartbeat", fault, fault)
    coordinator.wait_for_calls("heartbeat", 5)

    assert numbers(agent.poll()) == [0, 1, 2]
    assert callback_log.lines == [("assigned", [0, 1, 2])]


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS.keys())
def test_commit_is_repeated_after_network_faults(
    coordinator: FakeCoordinator, joined: AgentMaker, fault: Fault
) -> None:
    agent = joined()
    coordinator.next("commit", fault, fault)
    agent.commit({TopicPartition("orders", 1): 12})

    assert coordinator.offsets["orders", 1]["offset"] == 12
    assert coordinator.count("commit") == 3


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS.keys())
def test_leave_is_repeated_after_a_network_fault(
    coordinator: FakeCoordinator, joined: AgentMaker, fault: Fault
) -> None:
    agent = joined()
    coordinator.next("leave", fault)
    agent.close(PATIENCE_S)

    assert coordinator.member_id == ""


def test_unanswered_commit_raises_retry_error(coordinator: FakeCoordinator, joined: AgentMaker) -> None:
    agent = joined(api_timeout_ms=50)
    coordinator.next("commit", *[UNAVAILABLE] * 1_000)

    # The last attempt may be refused, or cut short by the time that is left.
    with pytest.raises(RetryError, match=r"COORDINATOR_NOT_AVAILABLE|no response from .*: timed out"):
        agent.commit({TopicPartition("orders", 1): 12})


@pytest.mark.parametrize(("retry_after", "pause_ms"), [("7", (7_000, 8_400)), ("3600", (30_000, 36_000))])
def test_agent_waits_for_retry_after_within_its_limit(
    coordinator: FakeCoordinator,
    make_agent: AgentMaker,
    clock: ManualClock,
    retry_after: str,
    pause_ms: tuple[int, int],
) -> None:
    wait = {"Retry-After": retry_after}
    coordinator.next("join", Problem("COORDINATOR_LOAD_IN_PROGRESS", 503, "retry", headers=wait))
    agent = make_agent(clock=clock)
    agent.poll()

    clock.advance(clock.wait_for_sleeper("-round", pause_ms))
    coordinator.wait_for_calls("join", 2)


@pytest.mark.parametrize("status", [429, 503])
def test_retry_after_of_a_proxy_does_not_keep_the_agent_from_other_urls(
    coordinator: FakeCoordinator, other_node: FakeCoordinator, make_agent: AgentMaker, clock: ManualClock, status: int
) -> None:
    coordinator.next("join", Problem("", status, "retry", headers={"Retry-After": "20"}))
    agent = make_agent(base_url=[coordinator.url, other_node.url], clock=clock)
    agent.poll()

    clock.advance(clock.wait_for_sleeper("-round", (1, 10)))
    other_node.wait_for_calls("join", 1)


def test_redirected_agent_uses_the_owner(
    coordinator: FakeCoordinator, other_node: FakeCoordinator, joined: AgentMaker
) -> None:
    coordinator.next("join", Problem("NOT_COORDINATOR", 421, "retry", {"coordinator": other_node.url}))
    agent = joined()
    agent.commit()

    assert [seen.call for seen in coordinator.seen] == ["join"]
    assert other_node.offsets["orders", 2]["offset"] == 0


def test_agent_sends_requests_to_the_owner_named_in_a_response(
    coordinator: FakeCoordinator, other_node: FakeCoordinator, joined: AgentMaker
) -> None:
    other_node.member_id, other_node.generation = "consumer-billing-x-1", 1
    agent = joined(client_id="consumer-billing-x", group_instance_id=None)
    coordinator.headers = {"X-Muster-Coordinator": other_node.url}
    agent.commit()
    agent.commit({TopicPartition("orders", 0): 5})

    assert coordinator.count("commit") == 1
    assert other_node.offsets["orders", 0]["offset"] == 5


def test_base_url_is_used_if_the_owner_is_unreachable(coordinator: FakeCoordinator, make_agent: AgentMaker) -> None:
    coordinator.headers = {"X-Muster-Coordinator": f"http://127.0.0.1:{free_port()}"}
    agent = make_agent()

    assert numbers(agent.poll(PATIENCE_S)) == [0, 1, 2]
    agent.commit({TopicPartition("orders", 0): 5})
    assert coordinator.offsets["orders", 0]["offset"] == 5


@pytest.mark.parametrize("fault", [Raw(404, b"404 page not found"), NOT_OURS, NOT_JSON, LOST_ON_THE_WAY])
def test_address_of_a_coordinator_that_is_no_node_is_avoided(
    coordinator: FakeCoordinator, other_node: FakeCoordinator, joined: AgentMaker, fault: Fault
) -> None:
    agent = joined()
    coordinator.headers = {"X-Muster-Coordinator": other_node.url}
    other_node.next("commit", *[fault] * 1_000)
    for offset in range(4):
        agent.commit({TopicPartition("orders", 0): offset})

    assert other_node.count("commit") == 1
    assert coordinator.offsets["orders", 0]["offset"] == 3


def test_any_of_several_base_urls_is_used(coordinator: FakeCoordinator, make_agent: AgentMaker) -> None:
    agent = make_agent(base_url=[f"http://127.0.0.1:{free_port()}", coordinator.url])

    assert numbers(agent.poll(PATIENCE_S)) == [0, 1, 2]


@pytest.mark.parametrize("answer", [NOT_JSON, NONSENSE, Raw(404, b"404 page not found")])
def test_unreachable_base_url_does_not_block_the_agent(
    coordinator: FakeCoordinator, other_node: FakeCoordinator, make_agent: AgentMaker, answer: Raw
) -> None:
    for call in ("join", "commit"):
        coordinator.next(call, *[answer] * 1_000)
    agent = make_agent(base_url=[coordinator.url, other_node.url])
    with suppress(RequestError):
        agent.poll(PATIENCE_S)

    assert numbers(agent.poll(PATIENCE_S)) == [0, 1, 2]
    assert coordinator.count("join") == 1


def test_proxy_error_does_not_end_the_membership(
    coordinator: FakeCoordinator, joined: AgentMaker, callback_log: CallbackLog
) -> None:
    coordinator.heartbeat_interval_ms = 5
    agent = joined(**callback_log.callbacks())
    coordinator.next("heartbeat", Raw(404, b"404 page not found"), Raw(405, b""))
    coordinator.wait_for_calls("heartbeat", 5)

    assert numbers(agent.poll()) == [0, 1, 2]
    assert callback_log.lines == [("assigned", [0, 1, 2])]


def test_outage_is_logged_once_with_its_reason(
    coordinator: FakeCoordinator, joined: AgentMaker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "muster.agent")
    coordinator.heartbeat_interval_ms = 5
    joined()
    caplog.clear()
    coordinator.next("heartbeat", *[UNAVAILABLE] * 20)
    coordinator.wait_for_calls("heartbeat", 22)

    assert caplog.messages[0] == (
        f"{coordinator.url} is unreachable or unavailable (COORDINATOR_NOT_AVAILABLE: as the test says); retrying"
    )
    assert caplog.messages[1:] in ([], [f"{coordinator.url} is reachable again"])


def test_close_ends_a_join_on_an_older_connection(
    coordinator: FakeCoordinator, other_node: FakeCoordinator, make_agent: AgentMaker
) -> None:
    never = threading.Event()
    moved = Problem("NOT_COORDINATOR", 421, "retry", {"coordinator": other_node.url})
    coordinator.next("join", moved, Hold(never))
    other_node.next("join", UNAVAILABLE)
    agent = make_agent(client_id="consumer-billing-between")
    agent.poll()
    coordinator.wait_for_calls("join", 2)
    agent.close()
    names = {thread.name for thread in threading.enumerate()}
    never.set()

    assert "consumer-billing-between-round" not in names


def test_agent_limits_connections_to_nodes(clock: ManualClock) -> None:
    nodes = [FakeCoordinator() for _ in range(6)]
    http = Urllib3Client(None)
    node_selector = NodeSelector([node.url for node in nodes], clock.now_ms, 1, threading.RLock())
    connection = Connection(http, node_selector, None, 1_000)
    for node in nodes:
        node.start()
        node.next("topics", UNAVAILABLE)
        with pytest.raises(RetryError):
            run_blocking(connection.call(parse_topics, "GET", "/v1/topics", timeout_ms=1_000 * PATIENCE_S))
    kept = [f"{scheme}://{host}:{port}" for scheme, host, port in http._pools]
    run_blocking(connection.close())
    for node in nodes:
        node.stop()

    assert kept == [node.url for node in nodes[-POOLS_MAX:]]


def test_look_up_of_a_name_has_the_timeout_of_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    is_over, never = threading.Event(), threading.Event()

    def look_up(*_: object, **__: object) -> None:
        never.wait(PATIENCE_S)
        is_over.set()
        raise OSError("no answer")

    monkeypatch.setattr("socket.getaddrinfo", look_up)
    request = HttpRequest("GET", "http://node.example:8080/v1/topics", {}, None, 20, 1_000)
    with pytest.raises(NoResponse, match=r"the look-up of node\.example timed out") as problem:
        run_blocking(Urllib3Client(None).send(request))

    assert not is_over.is_set()
    assert not problem.value.was_connected
    never.set()


@pytest.mark.parametrize("at_once", [b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n"])
def test_response_that_comes_byte_by_byte_has_the_timeout_of_a_response(at_once: bytes) -> None:
    whole = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n" + b"x" * 100
    has_ended = threading.Event()

    def drip() -> None:
        connection, _ = server.accept()
        with connection, suppress(OSError):
            connection.recv(65_536)
            connection.sendall(at_once)
            for number in range(len(at_once), len(whole)):
                has_ended.wait(0.02)
                connection.sendall(whole[number : number + 1])

    with socket.create_server(("127.0.0.1", 0)) as server:
        dripping = threading.Thread(target=drip)
        dripping.start()
        http = Urllib3Client(None)
        request = HttpRequest("GET", f"http://127.0.0.1:{server.getsockname()[1]}/v1/topics", {}, None, 1_000, 200)
        with pytest.raises(NoResponse, match="timed out") as problem:
            run_blocking(http.send(request))
        has_ended.set()
        dripping.join()
        run_blocking(http.close())

    assert problem.value.was_connected


def test_agent_retries_without_a_node_and_can_be_closed(make_agent: AgentMaker) -> None:
    agent = make_agent(base_url=f"http://127.0.0.1:{free_port()}")

    assert dict(agent.poll(timeout_s=0.1)) == {}
    with pytest.raises(CommitFailed):
        agent.commit({TopicPartition("orders", 0): 5})
    with pytest.raises(Unreachable, match=r"no response from http://127.0.0.1:\d+: \[Errno 111\] Connection refused$"):
        make_agent(base_url=f"http://127.0.0.1:{free_port()}", api_timeout_ms=20).committed(
            [TopicPartition("orders", 0)]
        )
    agent.close()


def test_close_ends_a_join_that_waits_at_the_coordinator(coordinator: FakeCoordinator, make_agent: AgentMaker) -> None:
    never = threading.Event()
    coordinator.next("join", Hold(never))
    agent = make_agent(client_id="consumer-billing-waiting")
    agent.poll()
    coordinator.wait_for_calls("join", 1)
    agent.close()

    assert "consumer-billing-waiting-round" not in {thread.name for thread in threading.enumerate()}
    never.set()


@pytest.mark.parametrize("leave", [ConsumerAgent.close, ConsumerAgent.unsubscribe])
def test_request_that_the_agent_ends_is_no_failure_of_the_node(
    coordinator: FakeCoordinator,
    make_agent: AgentMaker,
    caplog: pytest.LogCaptureFixture,
    leave: Callable[[ConsumerAgent], object],
) -> None:
    never = threading.Event()
    coordinator.next("join", Hold(never))
    agent = make_agent()
    agent.poll()
    coordinator.wait_for_calls("join", 1)
    leave(agent)
    never.set()

    assert "unreachable" not in caplog.text
