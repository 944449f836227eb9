"""Agents of one group on a real node."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from agent import ConsumerAgent, FencedInstanceId, OffsetAndMetadata, TopicPartition
from agent.assignors import BUILT_IN
from tests.support.blocking_aio_agent import BlockingAioAgent
from tests.support.certificates import Authority
from tests.support.cutting_proxy import CuttingProxy
from tests.support.databases import Databases
from tests.support.http_client import Client
from tests.support.nodes import CLUSTER_SECRET, running_node
from tests.support.running_agents import PARTITIONS, AgentGroup
from tests.support.tokens_file import ADA, TokensFile
from tests.support.waiting import PATIENCE_S, in_background, poll_until


@pytest.fixture
def group(node_url: str) -> Iterator[AgentGroup]:
    group = AgentGroup(node_url)
    yield group
    group.stop()


@pytest.mark.parametrize("assignor", list(BUILT_IN))
def test_partitions_are_reassigned_when_agents_join_and_leave(group: AgentGroup, assignor: str) -> None:
    group.start("first", assignors=[assignor])
    group.start("second", assignors=[assignor])
    group.wait_for(lambda: group.is_shared(3, 3))
    group.start("third", assignors=[assignor])
    group.wait_for(lambda: group.is_shared(2, 2, 2))
    group.agents["first"].close()
    group.wait_for(lambda: group.is_shared(3, 3))

    generations = {running.agent.generation for running in group.agents.values() if not running.is_closed}
    assert len(generations) == 1
    assert group.overlaps == []


def test_cooperative_callbacks_report_only_moved_partitions(group: AgentGroup) -> None:
    first = group.start("first", assignors=["cooperative-sticky"])
    group.wait_for(lambda: group.is_shared(6))
    group.start("second", assignors=["cooperative-sticky"])
    group.wait_for(lambda: group.is_shared(3, 3))

    changes = [line for line in first.lines if line[1]]
    assert changes == [("assigned", [0, 1, 2, 3, 4, 5]), ("revoked", [3, 4, 5])]


def test_on_assigned_and_on_revoked_alternate(group: AgentGroup) -> None:
    first = group.start("first")
    group.wait_for(lambda: group.is_shared(6))
    group.start("second")
    group.wait_for(lambda: group.is_shared(3, 3))

    kinds = [what for what, _ in first.lines]
    assert kinds == ["assigned", "revoked"] * (len(kinds) // 2) + ["assigned"]


def test_partitions_of_a_killed_process_are_reassigned_after_its_session_timeout(group: AgentGroup) -> None:
    group.call("PUT", f"/v1/groups/{group.group_id}/config", {"values": {"session_timeout_ms": 1_500}, "reason": "x"})
    options = ["--url", group.node_url, "--group", group.group_id, "--topic", group.topic, "--client-id", "doomed"]
    command = [sys.executable, "-m", "muster.local.demo_member", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as doomed:
        assert doomed.stdout is not None
        assert doomed.stdout.readline().startswith("generation 1: assigned")
        heir = group.start("heir")
        group.wait_for(lambda: len(heir.owned) == PARTITIONS // 2)
        doomed.kill()
    group.wait_for(lambda: group.is_shared(6))


def test_new_member_resumes_at_offsets_committed_by_the_former_owner(group: AgentGroup) -> None:
    predecessor = group.start("predecessor")
    group.wait_for(lambda: group.is_shared(6))
    predecessor.close()
    with ConsumerAgent(group.node_url, group.group_id, [group.topic], end_offset_of=lambda _: 50) as agent:
        positions = agent.poll(timeout_s=PATIENCE_S)
        for partition in positions:
            agent.seek(partition, 40 + partition.partition)
        agent.commit()
        agent.commit({TopicPartition(group.topic, 0): OffsetAndMetadata(7, metadata="again")}, asynchronous=True)
        agent.commit({TopicPartition(group.topic, 1): 8})
    with ConsumerAgent(group.node_url, group.group_id, [group.topic]) as successor:
        found = successor.poll(timeout_s=PATIENCE_S)
        committed = successor.committed()

    assert [found[TopicPartition(group.topic, number)] for number in range(PARTITIONS)] == [7, 8, 42, 43, 44, 45]
    assert committed[TopicPartition(group.topic, 0)] == OffsetAndMetadata(7, metadata="again")
    assert committed[TopicPartition(group.topic, 2)] == OffsetAndMetadata(42, log_end_offset=50)


def test_returning_static_member_keeps_its_partitions_without_rebalance(group: AgentGroup) -> None:
    group.start("other")
    pod = group.start("pod", group_instance_id="pod-0")
    group.wait_for(lambda: group.is_shared(3, 3))
    had, generation = pod.owned.copy(), pod.agent.generation
    pod.close()
    again = group.start("pod-again", group_instance_id="pod-0")
    group.wait_for(lambda: bool(again.owned))

    assert (again.owned, again.agent.generation) == (had, generation)
    assert group.agents["other"].agent.generation == generation


def test_replaced_static_member_is_fenced(group: AgentGroup) -> None:
    former = group.start("former", group_instance_id="pod-0")
    group.wait_for(lambda: group.is_shared(6))
    group.start("present", group_instance_id="pod-0")
    group.wait_for(lambda: former.is_closed)

    assert isinstance(former.error, FencedInstanceId)
    assert former.lines[-1][0] == "lost"


@pytest.mark.parametrize("group_id", ["größe / ~1?", "~", "..", "a" * 255])
def test_any_group_id_is_accepted(group: AgentGroup, group_id: str) -> None:
    group.configure(group_id)
    with ConsumerAgent(group.node_url, group_id, [group.topic]) as agent:
        assert len(agent.poll(timeout_s=PATIENCE_S)) == PARTITIONS
        agent.commit()
        assert set(agent.committed().values()) == {OffsetAndMetadata(0)}


def test_added_partitions_are_assigned(group: AgentGroup) -> None:
    running = group.start("only")
    group.wait_for(lambda: group.is_shared(6))
    group.call("PUT", f"/v1/topics/{group.topic}", {"partitions": PARTITIONS + 2, "reason": "a test"})
    group.wait_for(lambda: running.owned == set(range(PARTITIONS + 2)))


@pytest.mark.parametrize("number", range(11))
@pytest.mark.parametrize("what", ["lost_requests", "lost_answers"])
def test_agent_recovers_from_lost_requests_and_responses(group: AgentGroup, what: str, number: int) -> None:
    proxy = CuttingProxy(group.node_url)
    setattr(proxy, what, {number})
    with proxy.running():
        lines: list[tuple[str, int]] = []
        with ConsumerAgent(
            proxy.url,
            group.group_id,
            [group.topic],
            retry_backoff_ms=1,
            on_assigned=lambda partitions: lines.append(("assigned", len(partitions))),
            on_lost=lambda partitions: lines.append(("lost", len(partitions))),
        ) as agent:
            positions = agent.poll(timeout_s=PATIENCE_S)
            agent.commit(dict.fromkeys(positions, 5))
            agent.commit(dict.fromkeys(positions, 6), asynchronous=True)
            agent.commit({TopicPartition(group.topic, 0): 7})
            committed = {found.offset for found in agent.committed().values() if found}
            agent.close(timeout_s=PATIENCE_S)
        described = group.call("GET", f"/v1/groups/{group.group_id}")

    assert number < len(proxy.paths)
    assert committed == {6, 7}
    assert lines == [("assigned", PARTITIONS)]
    assert described["state"] == "Empty"


@pytest.mark.parametrize("kind", ["request", "answer"])
@pytest.mark.parametrize("call", ["heartbeat", "join", "sync", "offsets/query"])
def test_agent_recovers_from_losses_during_a_rebalance(group: AgentGroup, call: str, kind: str) -> None:
    proxy = CuttingProxy(group.node_url)
    with proxy.running():
        first = group.start("first", base_urls=[proxy.url], retry_backoff_ms=1, heartbeat_interval_ms=100)
        group.wait_for(lambda: group.is_shared(6))
        lose = proxy.lose_next_request_to if kind == "request" else proxy.lose_next_answer_to
        lose(f"/{call}")
        group.start("second")
        group.wait_for(lambda: group.is_shared(3, 3) and not proxy.is_to_lose_more)
        generations = {running.agent.generation for running in group.agents.values()}
        first.close()

    assert generations == {2}
    assert [what for what, _ in first.lines] == ["assigned", "revoked", "assigned", "revoked"]
    assert group.overlaps == []


def test_close_leaves_the_group_at_once(group: AgentGroup) -> None:
    with ConsumerAgent(group.node_url, group.group_id, [group.topic]) as agent:
        agent.poll(timeout_s=PATIENCE_S)

    assert group.call("GET", f"/v1/groups/{group.group_id}")["state"] == "Empty"


@pytest.mark.parametrize("kind", [ConsumerAgent, BlockingAioAgent])
def test_agent_with_a_certificate_is_a_member_of_a_node_with_tls(
    kind: Callable[..., ConsumerAgent | BlockingAioAgent], databases: Databases, tmp_path: Path
) -> None:
    authority, tokens = Authority(tmp_path), TokensFile(tmp_path / "tokens.json")
    tokens.write(ADA, {"certificate": "CN=billing", "actor": "billing", "role": "agent", "prefixes": ["billing-"]})
    options: dict[str, int | str] = {
        "group_initial_rebalance_delay_ms": 0,
        "tls_certificate_file": str(authority.issue("node")),
        "tls_client_ca_file": str(authority.path),
        "tokens_file": str(tokens.path),
        "cluster_secret": CLUSTER_SECRET,
    }
    url = databases.create()
    context = authority.trusted(authority.issue("billing"))
    with running_node(url, **options) as node:
        agent = kind(node.url, "billing-1", ["orders"], ssl_context=context, partitions_of=lambda _: 2)
        try:
            poll_until(lambda: agent.poll(1.0))
            agent.commit({TopicPartition("orders", 1): 4})
        finally:
            agent.close()
        with closing(Client(node.url, context)) as client:
            (offset,) = client.ok("GET", "/v1/groups/billing-1/offsets")["offsets"]
    databases.drop(url)

    assert (offset["partition"], offset["offset"]) == (1, 4)


def test_proxy_ends_though_a_client_holds_a_connection_without_a_request(node_url: str) -> None:
    """A story once waited for such a handler for ever."""
    proxy = CuttingProxy(node_url)
    address = urlsplit(proxy.url)
    with ExitStack() as running, closing(socket.socket()) as connection:
        running.enter_context(proxy.running())
        connection.connect((address.hostname, address.port))
        with closing(Client(proxy.url)) as later:  # Connections are accepted in their order.
            assert later.call("GET", "/healthz").status == 200
        with in_background(running.close, connection.close) as ended:
            ended.result(PATIENCE_S)
