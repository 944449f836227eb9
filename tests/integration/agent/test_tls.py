"""TLS: certificate checks, and no token over plain HTTP."""

from __future__ import annotations

import socket
import ssl
import threading
from pathlib import Path

import pytest

from agent import ConsumerAgent, TopicPartition
from agent.core.runtime import HttpRequest, NoResponse, run_blocking
from agent.threaded.http_client import Urllib3Client
from tests.integration.agent.agents import QUICK, CallbackLog
from tests.support.fake_coordinator import FakeCoordinator, Hold, Problem
from tests.support.waiting import PATIENCE_S

COMMITTED = TopicPartition("orders", 1)


def test_an_agent_that_trusts_the_authority_joins_and_commits(
    secure: FakeCoordinator, certificate: Path, callback_log: CallbackLog
) -> None:
    trusting = ssl.create_default_context(cafile=certificate)
    with ConsumerAgent(
        secure.url, "billing", ["orders"], ssl_context=trusting, token="s3cret", **(QUICK | callback_log.callbacks())
    ) as agent:
        agent.poll(PATIENCE_S)
        agent.commit({COMMITTED: 4})
        agent.commit({COMMITTED: 5}, asynchronous=True)
        agent.commit({COMMITTED: 6})

    assert secure.url.startswith("https://")
    assert secure.offsets[COMMITTED]["offset"] == 6
    assert secure.count("leave") == 1
    assert {seen.headers["Authorization"] for seen in secure.seen} == {"Bearer s3cret"}


def test_an_agent_that_does_not_trust_the_authority_sends_nothing(secure: FakeCoordinator) -> None:
    with ConsumerAgent(secure.url, "billing", ["orders"], **QUICK) as agent:
        agent.poll(timeout_s=0.2)

    assert secure.seen == []


def failure(url: str, connect_timeout_ms: int) -> NoResponse:
    http = Urllib3Client(None)
    with pytest.raises(NoResponse) as caught:
        run_blocking(http.send(HttpRequest("GET", f"{url}/", {}, None, connect_timeout_ms, 1_000 * PATIENCE_S)))
    run_blocking(http.close())
    return caught.value


def test_a_failed_handshake_is_no_connection(secure: FakeCoordinator) -> None:
    doubted = failure(secure.url, 1_000 * PATIENCE_S)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        unanswered = failure(f"https://127.0.0.1:{silent.getsockname()[1]}", 10)

    assert "certificate verify failed" in str(doubted)
    assert "timed out" in str(unanswered)
    assert not doubted.was_connected
    assert not unanswered.was_connected


def test_context_that_does_not_check_names_is_respected(secure: FakeCoordinator, certificate: Path) -> None:
    trusting = ssl.create_default_context(cafile=certificate)
    trusting.check_hostname = False
    other_name = secure.url.replace("127.0.0.1", "localhost")
    with ConsumerAgent(other_name, "billing", ["orders"], ssl_context=trusting, **QUICK) as agent:
        agent.poll(PATIENCE_S)
        assert agent.generation == 1


def test_token_is_never_sent_over_plain_http(
    secure: FakeCoordinator, other_node: FakeCoordinator, certificate: Path
) -> None:
    secure.headers = {"X-Muster-Coordinator": other_node.url}
    secure.next("commit", Problem("NOT_COORDINATOR", 421, "retry", {"coordinator": other_node.url}))
    trusting = ssl.create_default_context(cafile=certificate)
    with ConsumerAgent(secure.url, "billing", ["orders"], ssl_context=trusting, token="s3cret", **QUICK) as agent:
        agent.poll(PATIENCE_S)
        agent.commit({COMMITTED: 4})

    assert other_node.url.startswith("http://")
    assert other_node.seen == []
    assert secure.offsets[COMMITTED]["offset"] == 4


def test_closing_ends_a_long_poll_over_tls_too(secure: FakeCoordinator, certificate: Path) -> None:
    should_stop = threading.Event()
    secure.next("join", Hold(should_stop))
    agent = ConsumerAgent(
        secure.url, "billing", ["orders"], ssl_context=ssl.create_default_context(cafile=certificate), **QUICK
    )
    agent.poll()
    secure.wait_for_calls("join", 1)
    agent.close(timeout_s=0.2)
    threads = [thread.name for thread in threading.enumerate() if thread.name.startswith("consumer-billing")]
    should_stop.set()

    assert threads == []
