"""Agents of one group on a real node."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from agent import ConsumerAgent, FencedInstanceId, OffsetAndMetadata, TopicPartition
from agent.assignors import BUILT_IN
from tests.support.cutting_proxy import CuttingProxy
from tests.support.running_agents import PARTITIONS, Scene
from tests.support.waiting import PATIENCE_S


@pytest.fixture
def scene(node_url: str) -> Iterator[Scene]:
    scene = Scene(node_url)
    yield scene
    scene.stop()


@pytest.mark.parametrize("assignor", list(BUILT_IN))
def test_partitions_are_shared_anew_as_agents_come_and_go(scene: Scene, assignor: str) -> None:
    scene.start("first", assignors=[assignor])
    scene.start("second", assignors=[assignor])
    scene.wait_for(lambda: scene.is_shared(3, 3))
    scene.start("third", assignors=[assignor])
    scene.wait_for(lambda: scene.is_shared(2, 2, 2))
    scene.agents["first"].close()
    scene.wait_for(lambda: scene.is_shared(3, 3))

    generations = {running.agent.generation for running in scene.agents.values() if not running.is_closed}
    assert len(generations) == 1
    assert scene.overlaps == []


def test_cooperative_callbacks_report_only_moved_partitions(scene: Scene) -> None:
    first = scene.start("first", assignors=["cooperative-sticky"])
    scene.wait_for(lambda: scene.is_shared(6))
    scene.start("second", assignors=["cooperative-sticky"])
    scene.wait_for(lambda: scene.is_shared(3, 3))

    changes = [line for line in first.lines if line[1]]
    assert changes == [("assigned", [0, 1, 2, 3, 4, 5]), ("revoked", [3, 4, 5])]


def test_callbacks_come_in_pairs(scene: Scene) -> None:
    first = scene.start("first")
    scene.wait_for(lambda: scene.is_shared(6))
    scene.start("second")
    scene.wait_for(lambda: scene.is_shared(3, 3))

    kinds = [what for what, _ in first.lines]
    assert kinds == ["assigned", "revoked"] * (len(kinds) // 2) + ["assigned"]


def test_the_partitions_of_a_killed_process_go_to_the_others_when_its_session_is_over(scene: Scene) -> None:
    scene.call("PUT", f"/v1/groups/{scene.group_id}/config", {"values": {"session_timeout_ms": 1_500}, "reason": "x"})
    options = ["--url", scene.node_url, "--group", scene.group_id, "--topic", scene.topic, "--client-id", "doomed"]
    command = [sys.executable, "-m", "muster.demo_member", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as doomed:
        assert doomed.stdout is not None
        assert doomed.stdout.readline().startswith("generation 1: assigned")
        heir = scene.start("heir")
        scene.wait_for(lambda: len(heir.owned) == PARTITIONS // 2)
        doomed.kill()
    scene.wait_for(lambda: scene.is_shared(6))


def test_a_successor_goes_on_where_its_predecessor_has_committed(scene: Scene) -> None:
    predecessor = scene.start("predecessor")
    scene.wait_for(lambda: scene.is_shared(6))
    predecessor.close()
    with ConsumerAgent(scene.node_url, scene.group_id, [scene.topic], end_offset_of=lambda _: 50) as agent:
        positions = agent.poll(timeout_s=PATIENCE_S)
        for partition in positions:
            agent.seek(partition, 40 + partition.partition)
        agent.commit()
        agent.commit({TopicPartition(scene.topic, 0): OffsetAndMetadata(7, metadata="again")}, asynchronous=True)
        agent.commit({TopicPartition(scene.topic, 1): 8})
    with ConsumerAgent(scene.node_url, scene.group_id, [scene.topic]) as successor:
        found = successor.poll(timeout_s=PATIENCE_S)
        committed = successor.committed()

    assert [found[TopicPartition(scene.topic, number)] for number in range(PARTITIONS)] == [7, 8, 42, 43, 44, 45]
    assert committed[TopicPartition(scene.topic, 0)] == OffsetAndMetadata(7, metadata="again")
    assert committed[TopicPartition(scene.topic, 2)] == OffsetAndMetadata(42, log_end_offset=50)


def test_returning_static_member_keeps_its_partitions_without_rebalance(scene: Scene) -> None:
    scene.start("other")
    pod = scene.start("pod", group_instance_id="pod-0")
    scene.wait_for(lambda: scene.is_shared(3, 3))
    had, generation = pod.owned.copy(), pod.agent.generation
    pod.close()
    again = scene.start("pod-again", group_instance_id="pod-0")
    scene.wait_for(lambda: bool(again.owned))

    assert (again.owned, again.agent.generation) == (had, generation)
    assert scene.agents["other"].agent.generation == generation


def test_replaced_static_member_is_fenced(scene: Scene) -> None:
    former = scene.start("former", group_instance_id="pod-0")
    scene.wait_for(lambda: scene.is_shared(6))
    scene.start("present", group_instance_id="pod-0")
    scene.wait_for(lambda: former.is_closed)

    assert isinstance(former.error, FencedInstanceId)
    assert former.lines[-1][0] == "lost"


@pytest.mark.parametrize("group_id", ["größe / ~1?", "~", "..", "a" * 255])
def test_any_group_id_is_accepted(scene: Scene, group_id: str) -> None:
    scene.configure(group_id)
    with ConsumerAgent(scene.node_url, group_id, [scene.topic]) as agent:
        assert len(agent.poll(timeout_s=PATIENCE_S)) == PARTITIONS
        agent.commit()
        assert set(agent.committed().values()) == {OffsetAndMetadata(0)}


def test_a_topic_that_grows_is_shared_anew(scene: Scene) -> None:
    running = scene.start("only")
    scene.wait_for(lambda: scene.is_shared(6))
    scene.call("PUT", f"/v1/topics/{scene.topic}", {"partitions": PARTITIONS + 2, "reason": "a test"})
    scene.wait_for(lambda: running.owned == set(range(PARTITIONS + 2)))


@pytest.mark.parametrize("number", range(11))
@pytest.mark.parametrize("what", ["lost_requests", "lost_answers"])
def test_agent_recovers_from_lost_requests_and_responses(scene: Scene, what: str, number: int) -> None:
    proxy = CuttingProxy(scene.node_url)
    setattr(proxy, what, {number})
    with proxy.running():
        lines: list[tuple[str, int]] = []
        with ConsumerAgent(
            proxy.url,
            scene.group_id,
            [scene.topic],
            retry_backoff_ms=1,
            on_assigned=lambda partitions: lines.append(("assigned", len(partitions))),
            on_lost=lambda partitions: lines.append(("lost", len(partitions))),
        ) as agent:
            positions = agent.poll(timeout_s=PATIENCE_S)
            agent.commit(dict.fromkeys(positions, 5))
            agent.commit(dict.fromkeys(positions, 6), asynchronous=True)
            agent.commit({TopicPartition(scene.topic, 0): 7})
            committed = {found.offset for found in agent.committed().values() if found}
        described = scene.call("GET", f"/v1/groups/{scene.group_id}")

    assert number < len(proxy.paths)
    assert committed == {6, 7}
    assert lines == [("assigned", PARTITIONS)]
    assert described["state"] == "Empty"


@pytest.mark.parametrize("kind", ["request", "answer"])
@pytest.mark.parametrize("call", ["heartbeat", "join", "sync", "offsets/query"])
def test_agent_recovers_from_losses_during_a_rebalance(scene: Scene, call: str, kind: str) -> None:
    proxy = CuttingProxy(scene.node_url)
    with proxy.running():
        first = scene.start("first", base_urls=[proxy.url], retry_backoff_ms=1, heartbeat_interval_ms=100)
        scene.wait_for(lambda: scene.is_shared(6))
        lose = proxy.lose_next_request_to if kind == "request" else proxy.lose_next_answer_to
        lose(f"/{call}")
        scene.start("second")
        scene.wait_for(lambda: scene.is_shared(3, 3) and not proxy.is_to_lose_more)
        generations = {running.agent.generation for running in scene.agents.values()}
        first.close()

    assert generations == {2}
    assert [what for what, _ in first.lines] == ["assigned", "revoked", "assigned", "revoked"]
    assert scene.overlaps == []


def test_a_closed_agent_has_left_at_once(scene: Scene) -> None:
    with ConsumerAgent(scene.node_url, scene.group_id, [scene.topic]) as agent:
        agent.poll(timeout_s=PATIENCE_S)

    assert scene.call("GET", f"/v1/groups/{scene.group_id}")["state"] == "Empty"
