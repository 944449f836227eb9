"""Replacing the cluster secret: in every step, nodes before and after it accept each other's forwarded requests."""

from collections.abc import Iterator
from contextlib import ExitStack, closing
from itertools import pairwise

import pytest

from api.http.forward_signature import ForwardSigner
from api.http.problems import InvalidForwardSignature
from tests.integration.http.node_pair import OPTIONS, Pair
from tests.support.databases import Databases
from tests.support.http_client import position
from tests.support.nodes import running_node

OLD, NEW = "old-" * 8, "new-" * 8
STEPS = ((OLD, ""), (OLD, NEW), (NEW, OLD), (NEW, ""))
"""The secret and the accepted secret of a node before, during and after the rotation."""
HERE = "http://here"
TARGET = b"POST /v1/groups/g/heartbeat"


def accepts(receiver: tuple[str, str], sender: tuple[str, str]) -> bool:
    signing, reading = (
        ForwardSigner(secret, HERE, 30_000, lambda: 1_000, accepted_secret=accepted)
        for secret, accepted in (sender, receiver)
    )
    headers = dict(signing.headers(TARGET, b"", {}, "192.0.2.7", node_url=HERE))
    try:
        reading.read(TARGET, headers)
    except InvalidForwardSignature:
        return False
    return True


@pytest.mark.parametrize(("before", "after"), list(pairwise(STEPS)))
def test_nodes_before_and_after_a_step_accept_each_other(before: tuple[str, str], after: tuple[str, str]) -> None:
    assert accepts(before, after)
    assert accepts(after, before)
    assert accepts(after, after)


def test_a_secret_that_is_not_accepted_is_refused() -> None:
    assert not accepts((OLD, ""), (NEW, ""))
    assert not accepts((NEW, ""), (OLD, NEW))
    assert not accepts((NEW, ""), ("", "")), "an empty accepted secret accepts nothing"


@pytest.fixture
def rotating(databases: Databases) -> Iterator[Pair]:
    """Serve two nodes in the middle of a rotation: one signs with the old secret, the other with the new one."""
    url = databases.create()
    with ExitStack() as stack:
        nodes = [
            stack.enter_context(
                running_node(url, **{**OPTIONS, "cluster_secret": secret, "cluster_secret_accepted": accepted})
            )
            for secret, accepted in ((OLD, NEW), (NEW, OLD))
        ]
        pair = Pair(nodes)
        for client in pair.clients:
            stack.enter_context(closing(client))
        pair.balance_shards()
        yield pair
    databases.drop(url)


@pytest.mark.parametrize("owner", [0, 1])
def test_two_nodes_forward_to_each_other_in_the_middle_of_a_rotation(rotating: Pair, owner: int) -> None:
    group = rotating.clients[1 - owner].group(rotating.owned_by(owner))
    body = {"generation": -1, "member_id": "", "offsets": [{"topic": "orders", "partition": 0, "offset": 7}]}

    answer = group.client.ok("POST", f"{group.path}/offsets", body)
    assert [each["code"] for each in answer["offsets"]] == ["NONE"]


@pytest.mark.parametrize("owner", [0, 1])
def test_members_and_cursors_of_one_node_are_known_to_the_other_in_the_middle_of_a_rotation(
    rotating: Pair, owner: int
) -> None:
    here, there = rotating.clients[1 - owner], rotating.clients[owner]
    group_id = rotating.owned_by(owner)
    member = here.group(group_id).stable()
    offsets = [position(1, partition=each) for each in range(3)]
    body = {"generation": member.generation, "member_id": member.member_id}
    for client in (there, here):
        path = client.group(group_id).path
        assert client.call("POST", f"{path}/heartbeat", body).status == 200
        client.ok("POST", f"{path}/offsets", {**body, "offsets": offsets})
    first = here.ok("GET", f"{here.group(group_id).path}/offsets?limit=2")
    last = there.ok("GET", f"{there.group(group_id).path}/offsets?cursor={first['next_cursor']}")
    assert [each["partition"] for each in first["offsets"] + last["offsets"]] == [0, 1, 2]
