"""Whatever comes at a group at once, and whichever node it is at, there is one truth about it."""

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
from tests.system.e2e.stories.stage import Hold, Stage

CROWD = 50


def test_fifty_joins_at_once_are_one_generation_in_which_the_leader_sees_everybody(stage: Stage) -> None:
    stage.configure(group_initial_rebalance_delay_ms=1_500)
    http = urllib3.PoolManager(maxsize=CROWD, retries=False, timeout=PATIENCE_S)

    def join(number: int) -> dict[str, Any]:
        body = {
            "member_id": "",
            "group_instance_id": f"pod-{number}",
            "client_id": "crowd",
            "session_timeout_ms": 20_000,
            "rebalance_timeout_ms": 20_000,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": {"topics": [stage.topic]}}],
            "max_wait_ms": 20_000,
        }
        response = http.request("POST", f"{stage.node_url}/v1/groups/{stage.group_id}/join", json=body)
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


def test_fetching_offsets_never_reports_a_rebalance(stage: Stage) -> None:
    giving_back = Hold()
    first = stage.enter("one", in_revoked=giving_back.stand)
    stage.wait_for_shares(3, generation=1)
    standing = first.stand_still()
    first.agent.commit({TopicPartition(stage.topic, 1): 5})
    standing.release()
    stage.enter("two")
    giving_back.wait_until_reached()
    stage.wait_for_group(lambda group: group["state"] == "PreparingRebalance")
    fetched = stage.call("GET", f"/v1/groups/{stage.group_id}/offsets")["offsets"]
    giving_back.release()

    assert [(each["partition"], each["offset"]) for each in fetched] == [(1, 5)]


@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
def test_consumers_notice_nothing_when_their_node_goes(
    database_url: str, sql_connection: PsycopgConnection, assignor: str
) -> None:
    with ExitStack() as later, ExitStack() as first_node:
        url = first_node.enter_context(running_node(database_url, lease_ttl_ms=3_000)).url
        other = later.enter_context(running_node(database_url, lease_ttl_ms=3_000)).url
        stage = Stage(other, sql_connection)
        later.callback(stage.finish)
        stage.configure(group_initial_rebalance_delay_ms=1_500)
        urls = {"base_urls": [url, other], "assignors": [assignor]}
        actors = [stage.enter(name, **urls) for name in ("one", "two")]
        stage.wait_for(
            lambda: sorted(map(len, stage.shares())) == [1, 2] and len({a.assigned_in_generation for a in actors}) == 1
        )

        def what_is_known() -> object:
            return stage.rebalances(), [(actor.counts(), actor.agent.generation, actor.owned) for actor in actors]

        before = what_is_known()
        first_node.close()
        for actor in actors:
            standing = actor.stand_still()
            actor.agent.commit(dict.fromkeys([TopicPartition(stage.topic, number) for number in actor.owned], 10))
            standing.release()

        assert what_is_known() == before
