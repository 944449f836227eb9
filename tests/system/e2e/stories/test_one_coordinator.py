"""Concurrent requests at several nodes have consistent results."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest
import urllib3
from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name

from agent import TopicPartition
from tests.support.nodes import running_node
from tests.support.waiting import PATIENCE_S
from tests.system.e2e.stories.story_group import Pause, StoryGroup

CROWD = 50


def test_fifty_concurrent_joins_form_one_generation_and_the_leader_gets_all_members(group: StoryGroup) -> None:
    group.configure(group_initial_rebalance_delay_ms=1_500)
    http = urllib3.PoolManager(maxsize=CROWD, retries=False, timeout=PATIENCE_S)

    def join(number: int) -> dict[str, Any]:
        body = {
            "member_id": "",
            "group_instance_id": f"pod-{number}",
            "client_id": "crowd",
            "session_timeout_ms": 20_000,
            "rebalance_timeout_ms": 20_000,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": {"topics": [group.topic]}}],
            "max_wait_ms": 20_000,
        }
        response = http.request("POST", f"{group.node_url}/v1/groups/{group.group_id}/join", json=body)
        assert response.status == 200, response.data
        answer: dict[str, Any] = response.json()
        return answer

    with http, ThreadPoolExecutor(CROWD) as pool:
        answers = list(pool.map(join, range(CROWD)))
    (leader,) = {answer["leader"] for answer in answers}
    shown = {answer["member_id"]: answer["members"] for answer in answers}

    assert {answer["generation"] for answer in answers} == {1}
    assert {each["member_id"] for each in shown.pop(leader)} == {answer["member_id"] for answer in answers}
    assert len(shown) == CROWD - 1
    assert not any(shown.values())


def test_fetching_offsets_never_reports_a_rebalance(group: StoryGroup) -> None:
    revocation = Pause()
    first = group.start("one", in_revoked=revocation.block)
    group.wait_for_shares(3, generation=1)
    pause = first.pause()
    first.agent.commit({TopicPartition(group.topic, 1): 5})
    pause.release()
    group.start("two")
    revocation.wait_until_reached()
    group.wait_for_group(lambda description: description["state"] == "PreparingRebalance")
    fetched = group.call("GET", f"/v1/groups/{group.group_id}/offsets")["offsets"]
    revocation.release()

    assert [(each["partition"], each["offset"]) for each in fetched] == [(1, 5)]


@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
def test_loss_of_a_node_is_invisible_to_consumers(
    database_url: str, sql_connection: PsycopgConnection, assignor: str
) -> None:
    with ExitStack() as later, ExitStack() as first_node:
        url = first_node.enter_context(running_node(database_url, lease_ttl_ms=3_000)).url
        other = later.enter_context(running_node(database_url, lease_ttl_ms=3_000)).url
        group = StoryGroup(other, sql_connection)
        later.callback(group.close)
        group.configure(group_initial_rebalance_delay_ms=1_500)
        urls = {"base_urls": [url, other], "assignors": [assignor]}
        consumers = [group.start(name, **urls) for name in ("one", "two")]
        group.wait_for(
            lambda: (
                sorted(map(len, group.shares())) == [1, 2] and len({a.assigned_in_generation for a in consumers}) == 1
            )
        )

        def observed_state() -> object:
            return group.rebalances(), [
                (consumer.counts(), consumer.agent.generation, consumer.owned) for consumer in consumers
            ]

        before = observed_state()
        first_node.close()
        for consumer in consumers:
            pause = consumer.pause()
            consumer.agent.commit(dict.fromkeys([TopicPartition(group.topic, number) for number in consumer.owned], 10))
            pause.release()

        assert observed_state() == before
