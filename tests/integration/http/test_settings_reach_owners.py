"""Changes of settings between two nodes that share a database: where and when they are effective."""

import contextlib
import time
from collections.abc import Iterator
from urllib.parse import quote
from uuid import uuid4

import pytest

from coordinator_core.runtime.shard_ownership import RENEWALS_PER_TTL
from tests.integration.http.node_pair import OPTIONS, Pair
from tests.support.databases import Databases
from tests.support.http_client import Answer, Client, Group, Json, join_body
from tests.support.nodes import hanging_node, running_node

RENEWAL_S = int(OPTIONS["lease_ttl_ms"]) / RENEWALS_PER_TTL / 1000
ALLOWANCE_S = 20
"""How much longer than one renewal a response may take on a busy machine; the time of a request is longer."""
ATTEMPTS = 5
"""Of what a busy machine may do too late."""


@pytest.fixture(scope="module")
def pair(databases: Databases) -> Iterator[Pair]:
    url = databases.create()
    with contextlib.ExitStack() as stack:
        pair = Pair([stack.enter_context(running_node(url, **OPTIONS)) for _ in range(2)])
        pair.balance_shards()
        yield pair
        for client in pair.clients:
            client.close()
    databases.drop(url)


@pytest.fixture
def group(pair: Pair) -> Group:
    return pair.elsewhere()


@pytest.fixture
def hanging(pair: Pair) -> Iterator[str]:
    """Give a node that has renewed just now, and does not renew again."""
    database_url = pair.nodes[0].settings.database_url
    assert database_url is not None
    with hanging_node(database_url.get_secret_value()) as node_id:
        yield node_id


def put(client: Client, path: str, value: int | None, key: str = "group_max_session_timeout_ms") -> Answer:
    return client.call("PUT", path, {"values": {key: value}, "reason": "a test"})


def undo(client: Client, answer: Answer) -> Json:
    return client.ok("POST", f"/v1/changes/{answer.headers['x-muster-change-id']}/undo", {"reason": "a mistake"})


def join_at(client: Client, group_id: str, session_timeout_ms: int) -> Answer:
    return client.group(group_id).post("join", join_body(session_timeout_ms=session_timeout_ms))


def test_group_setting_is_effective_at_the_owner_when_answered(pair: Pair) -> None:
    first, owner = pair.clients
    for session_timeout_ms in range(20_000, 26_000, 1_000):
        group_id = pair.owned_by(1)
        changed = put(first, f"/v1/groups/{quote(group_id, safe='')}/config", session_timeout_ms - 1)
        refused = join_at(owner, group_id, session_timeout_ms)

        assert (changed.status, refused.code) == (200, "INVALID_SESSION_TIMEOUT")


def test_group_setting_can_be_read_at_any_node_after_the_answer(pair: Pair, group: Group) -> None:
    changed = put(pair.clients[0], f"{group.path}/config", 20_000)

    for client in pair.clients:
        assert client.ok("GET", f"{group.path}/config") == changed.json


def test_undo_of_a_group_setting_is_effective_at_the_owner_when_answered(pair: Pair) -> None:
    first, owner = pair.clients
    for _ in range(3):
        group_id = pair.owned_by(1)
        changed = put(first, f"/v1/groups/{quote(group_id, safe='')}/config", 20_000)
        undone = undo(first, changed)

        assert undone["settings"] == [{"key": "group_max_session_timeout_ms", "outcome": "restored", "value": None}]
        assert undone["unconfirmed_nodes"] == []
        assert join_at(owner, group_id, 30_000).code == "MEMBER_ID_REQUIRED"


def test_repeated_change_is_recorded_once(pair: Pair, group: Group) -> None:
    body = {"values": {"group_max_size": 7}, "reason": "a test"}
    key = {"Idempotency-Key": str(uuid4())}
    answers = [client.call("PUT", f"{group.path}/config", body, key) for client in pair.clients]

    assert answers[0].json == answers[1].json
    assert answers[0].headers["x-muster-change-id"] == answers[1].headers["x-muster-change-id"]
    assert len(pair.clients[0].ok("GET", f"/v1/changes?group_id={quote(group.group_id)}")["changes"]) == 1


def test_cluster_setting_is_effective_on_confirmed_nodes_when_answered(pair: Pair) -> None:
    first, second = pair.clients
    group_id = pair.owned_by(1)
    attempt = 0
    while True:
        attempt += 1
        changed = put(first, "/v1/config", 20_000)
        refused = join_at(second, group_id, 20_001)
        undone = undo(first, changed)
        joined = join_at(second, group_id, 20_001)
        if changed.json["unconfirmed_nodes"] == undone["unconfirmed_nodes"] == [] or attempt == ATTEMPTS:
            break

    assert changed.json["unconfirmed_nodes"] == []
    assert changed.json["values"]["group_max_session_timeout_ms"] == {"value": 20_000, "source": "cluster"}
    assert refused.code == "INVALID_SESSION_TIMEOUT"
    assert undone["unconfirmed_nodes"] == []
    assert joined.code == "MEMBER_ID_REQUIRED"


def test_node_that_does_not_renew_is_listed_after_one_renewal(pair: Pair, hanging: str) -> None:
    for value, send in ((20_000, put), (None, put)):
        began_s = time.monotonic()
        changed = send(pair.clients[0], "/v1/config", value)
        took_s = time.monotonic() - began_s

        assert changed.json["unconfirmed_nodes"] == [hanging]
        assert RENEWAL_S <= took_s < RENEWAL_S + ALLOWANCE_S


def test_undo_lists_the_nodes_that_have_not_confirmed_it(pair: Pair, hanging: str) -> None:
    undone = undo(pair.clients[0], put(pair.clients[0], "/v1/config", 9, "group_max_size"))

    assert undone["unconfirmed_nodes"] == [hanging]


def test_unconfirmed_nodes_are_listed_by_any_node_until_they_confirm(pair: Pair, hanging: str) -> None:
    put(pair.clients[0], "/v1/config", 9, "group_max_size")
    listed = [client.ok("GET", "/v1/config")["unconfirmed_nodes"] for client in pair.clients]
    put(pair.clients[0], "/v1/config", None, "group_max_size")

    assert listed == [[hanging]] * 2


def test_answer_is_sent_before_the_request_timeout(databases: Databases) -> None:
    url = databases.create()
    options = OPTIONS | {"lease_ttl_ms": 60_000, "request_timeout_ms": 2_000}
    with (
        running_node(url, **options) as node,
        hanging_node(url) as hanging,
        contextlib.closing(Client(node.url)) as client,
    ):
        answers = (put(client, "/v1/config", 9, "group_max_size") for _ in range(ATTEMPTS))
        changed = next(answer for answer in answers if answer.status == 200)

    assert changed.json["unconfirmed_nodes"] == [hanging]
    databases.drop(url)
