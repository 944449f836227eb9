"""Forwarding between two nodes that share a database: each request goes to the node that does not own the group."""

import contextlib
import http.client
import json
import socket
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from urllib.parse import urlsplit
from uuid import uuid4

import psycopg2
import pytest
import structlog
from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name

from muster.settings import psql_url
from tests.integration.http.forward_signatures import forward_headers
from tests.integration.http.node_pair import OPTIONS, Pair
from tests.support.databases import Databases
from tests.support.http_client import AS_JSON, Answer, Client, Group, Json, Member, fresh_id, join_body, position
from tests.support.nodes import CLUSTER_SECRET, Node, requests_in_memory, running_node, without_collector
from tests.support.waiting import PATIENCE_S, poll_until

STALE_COMMITS = 200
DIRECT = {"X-Muster-Forward": "false"}
PATIENT: Json = {"session_timeout_ms": 30_000, "rebalance_timeout_ms": 60_000}
UNUSED_ADDRESS = "127.0.0.1:1"


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


def test_every_agent_request_is_forwarded_to_the_owner(pair: Pair, group: Group) -> None:
    member = group.stable()

    assert member.post("heartbeat").status == 200
    assert member.commit(position(41)).json == {"offsets": [{"topic": "orders", "partition": 0, "code": "NONE"}]}
    assert group.describe()["members"][0]["member_id"] == member.member_id
    assert group.describe()["coordinator"]["url"] == pair.nodes[1].url
    assert group.post("leave", {"members": [{"member_id": member.member_id}]}).status == 200
    assert group.describe()["state"] == "Empty"


def test_forwarded_response_names_the_owner(pair: Pair, group: Group) -> None:
    answer = group.post("join", join_body())

    assert answer.headers["x-muster-coordinator"] == pair.nodes[1].url


def test_a_long_poll_is_answered_when_the_group_is_ready(pair: Pair, group: Group) -> None:
    first = group.stable()
    waiting = pair.clients[0].later(group, "join", join_body(member_id=group.handshake()))
    poll_until(lambda: first.post("heartbeat").status == 409)
    body = join_body(member_id=first.member_id)
    leader = group.member(pair.clients[0].later(group, "join", body).result())

    assert waiting.result().json["generation"] == leader.generation == 2


def test_error_of_the_owner_is_returned_unchanged(group: Group) -> None:
    group.stable()
    answer = group.post("heartbeat", {"generation": 1, "member_id": "unknown"})

    assert (answer.status, answer.code, answer.json["kafka_code"]) == (404, "UNKNOWN_MEMBER_ID", 25)


def test_client_host_of_a_forwarded_member_is_that_of_the_client(pair: Pair, group: Group) -> None:
    address = urlsplit(pair.nodes[0].url).netloc
    connection = http.client.HTTPConnection(address, timeout=PATIENCE_S, source_address=("127.0.0.2", 0))
    member_id = group.handshake()
    body = pair.clients[0].encoded(join_body(member_id=member_id))
    connection.request("POST", f"{group.path}/join", body, {"Content-Type": "application/json"})
    assert connection.getresponse().status == 200
    connection.close()

    assert group.describe()["members"][0]["client_host"] == "127.0.0.2"


def test_forwarded_change_keeps_the_idempotency_key(pair: Pair, group: Group) -> None:
    member = group.stable()
    group.post("leave", {"members": [{"member_id": member.member_id}]})
    key = str(uuid4())
    answer = pair.clients[0].call("DELETE", f"{group.path}?reason=tidy", headers={"Idempotency-Key": key})

    assert (answer.status, answer.headers["x-muster-change-id"]) == (204, key)


def test_request_without_forwarding_gets_the_owner_address(pair: Pair, group: Group) -> None:
    answer = pair.clients[0].call("POST", f"{group.path}/join", join_body(), DIRECT)

    assert (answer.status, answer.code, answer.json["coordinator"]) == (421, "NOT_COORDINATOR", pair.nodes[1].url)


def test_node_can_be_configured_not_to_forward(databases: Databases) -> None:
    url = databases.create()
    with running_node(url, **OPTIONS, forward=False) as first, running_node(url, **OPTIONS) as second:
        pair = Pair([first, second])
        pair.balance_shards()
        answer = pair.elsewhere().post("join", join_body())
        assert (answer.status, answer.json["coordinator"]) == (421, second.url)
        for client in pair.clients:
            client.close()
    databases.drop(url)


# -- signatures -----------------------------------------------------------------------------------------


def test_forwarded_request_is_not_forwarded_again(pair: Pair, group: Group) -> None:
    body = pair.clients[0].encoded(join_body())
    answer = pair.clients[0].send("POST", f"{group.path}/join", body, joining(pair, group, body))

    assert answer.code == "NOT_COORDINATOR"


@pytest.mark.parametrize("secret", ["", "another cluster's"])
def test_signature_with_another_secret_is_refused(pair: Pair, group: Group, secret: str) -> None:
    body = pair.clients[0].encoded(join_body())
    answer = pair.clients[0].send("POST", f"{group.path}/join", body, joining(pair, group, body, secret))

    assert (answer.status, answer.code) == (403, "CLUSTER_AUTHORIZATION_FAILED")


def test_signature_is_valid_for_its_own_request_only(pair: Pair, group: Group) -> None:
    body = pair.clients[0].encoded(join_body())
    signature = joining(pair, group, b"another body")

    assert pair.clients[0].send("POST", f"{group.path}/join", body, signature).status == 403


def test_forward_headers_without_signature_are_refused(pair: Pair, group: Group) -> None:
    signature = AS_JSON | {"X-Muster-Forwarded-For": "192.0.2.7"}
    body = pair.clients[0].encoded(join_body())

    assert pair.clients[0].send("POST", f"{group.path}/join", body, signature).status == 403


def joining(pair: Pair, group: Group, body: bytes, secret: str = CLUSTER_SECRET) -> dict[str, str]:
    """Return the headers of a join that another node forwards to the first one."""
    return AS_JSON | forward_headers(secret, pair.nodes[0].url, f"POST {group.path}/join", body)


# -- owners that go away ----------------------------------------------------------------------------------


@pytest.fixture
def lone(databases: Databases) -> Iterator["Lone"]:
    """Return a node whose shards can be moved."""
    url = databases.create()
    with running_node(url, **OPTIONS, request_timeout_ms=500) as node, contextlib.closing(Client(node.url)) as client:
        connection = psycopg2.connect(psql_url(url))
        connection.autocommit = True
        yield Lone(client, connection)
        connection.close()
    databases.drop(url)


@dataclass(frozen=True, slots=True)
class Lone:
    """One node, and its database."""

    client: Client
    connection: PsycopgConnection

    def group_of(self, owner: str) -> Group:
        """Return a group that belongs to a node at this address from now on."""
        group = self.client.group(fresh_id())
        with self.connection.cursor() as cursor:
            cursor.execute(
                "INSERT INTO nodes (node_id, listeners, version, started_at, expires_at)"
                " VALUES (%s, jsonb_build_object('http', %s), '0', now(), now() + interval '1 hour')",
                [owner, f"http://{owner}"],
            )
        self.move(group, owner)
        return group

    def move(self, group: Group, owner: str) -> None:
        """Move the group's shard to a node under a new epoch, and wait until both nodes have it."""
        shard_id = self.client.ok("GET", f"{group.path}/coordinator")["shard_id"]
        with self.connection.cursor() as cursor:
            cursor.execute(
                "UPDATE shard_leases SET node_id = %s, epoch = epoch + 1, expires_at = now() + interval '1 hour'"
                " WHERE shard_id = %s RETURNING epoch",
                [owner, shard_id],
            )
            epoch = cursor.fetchone()
        poll_until(lambda: (self.client.ok("GET", f"{group.path}/coordinator")["epoch"],) == epoch)


@pytest.fixture
def silent_address() -> Iterator[str]:
    """Yield the address of a server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


def test_unreachable_owner_is_answered_with_retry(lone: Lone) -> None:
    with structlog.testing.capture_logs() as logged:
        answer = lone.group_of(UNUSED_ADDRESS).post("join", join_body())

    assert (answer.status, answer.code, answer.headers["retry-after"]) == (503, "COORDINATOR_NOT_AVAILABLE", "1")
    (event,) = [each for each in logged if each["event"] == "request_forward_failed"]
    assert event["reason"] == "Connect call failed ('127.0.0.1', 1)"


def test_silent_owner_is_answered_with_retry(lone: Lone, silent_address: str) -> None:
    answer = lone.group_of(silent_address).post("heartbeat", {"generation": 1, "member_id": "m"})

    assert (answer.status, answer.code) == (503, "COORDINATOR_NOT_AVAILABLE")


def test_a_long_poll_ends_when_the_groups_shard_moves(lone: Lone, silent_address: str) -> None:
    group = lone.group_of(silent_address)
    waiting = lone.client.later(group, "join", join_body())
    lone.move(group, silent_address)

    assert (waiting.result().status, waiting.result().code) == (421, "NOT_COORDINATOR")


def test_commit_of_a_client_that_gave_up_is_not_forwarded(pair: Pair) -> None:
    member = pair.clients[1].group(pair.owned_by(1)).stable()
    with pair.nodes[0].paused():
        send_and_hang_up(pair.nodes[0], member, position(41))
        assert member.commit(position(42)).status == 200
    # On one node, a request that arrives later is answered later.
    assert pair.clients[0].group(member.group.group_id).describe()["state"] == "Stable"

    fetched = member.group.client.ok("GET", f"{member.group.path}/offsets")["offsets"]
    assert [one["offset"] for one in fetched] == [42]


def test_commits_of_clients_that_gave_up_replace_no_newer_one_at_the_owner(
    pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    member = pair.clients[0].group(pair.owned_by(1)).stable()
    owner = pair.nodes[1]
    with owner.paused():
        for _ in range(STALE_COMMITS):
            send_and_hang_up(owner, member, position(41))
    assert member.commit(position(42)).status == 200  # node 0 forwards it over a connection that the owner knows
    # The owner accepts connections in their order.
    assert pair.clients[1].group(member.group.group_id).describe()["state"] == "Stable"

    fetched = member.group.client.ok("GET", f"{member.group.path}/offsets")["offsets"]
    assert [one["offset"] for one in fetched] == [42]
    assert not caplog.records, "such a client is no error"


def send_and_hang_up(node: Node, member: Member, *offsets: Json) -> None:
    """Send a commit, and close the connection without waiting for the response."""
    connection = http.client.HTTPConnection(urlsplit(node.url).netloc, timeout=PATIENCE_S)
    body = {"generation": member.generation, "member_id": member.member_id, "offsets": list(offsets)}
    connection.request("POST", f"{member.group.path}/offsets", json.dumps(body), {"Content-Type": "application/json"})
    connection.close()


# -- a stopping node with forwarded requests -----------------------------------------------------------------


def test_stopping_node_ends_forwarded_long_polls(databases: Databases, caplog: pytest.LogCaptureFixture) -> None:
    url = databases.create()
    with running_node(url, **OPTIONS) as owner, contextlib.ExitStack() as stopping:
        pair = Pair([stopping.enter_context(running_node(url, **OPTIONS)), owner])
        pair.balance_shards()
        waiting = [parked_join(pair, pair.elsewhere()), parked_sync(pair, pair.elsewhere())]
        stopping.close()
        answers = [each.result() for each in waiting]
        for client in pair.clients:
            client.close()
    databases.drop(url)

    for answer in answers:
        assert (answer.status, answer.code, answer.headers["retry-after"]) == (503, "COORDINATOR_NOT_AVAILABLE", "1")
        assert (answer.json["action"], answer.json["detail"]) == ("retry", "this node is stopping")
    assert not caplog.records, "no connection was cut off"


def parked_join(pair: Pair, group: Group) -> Future[Answer]:
    """Return the future response of a join that waits for a member that does not rejoin."""
    group.stable(**PATIENT)
    parked = pair.clients[0].later(group, "join", join_body(member_id=group.handshake(), **PATIENT))
    wait_until_parked(pair, "JoinGroup")
    return parked


def parked_sync(pair: Pair, group: Group) -> Future[Answer]:
    """Return the future response of a sync that waits for a leader that does not sync."""
    leader = group.stable(**PATIENT)
    joining = pair.clients[0].later(group, "join", join_body(member_id=group.handshake(), **PATIENT))
    poll_until(lambda: leader.post("heartbeat").status == 409)
    group.post("join", join_body(member_id=leader.member_id, **PATIENT))
    follower = group.member(joining.result())
    parked = pair.clients[0].later(
        group, "sync", {"generation": follower.generation, "member_id": follower.member_id, "assignments": []}
    )
    wait_until_parked(pair, "SyncGroup")
    return parked


def wait_until_parked(pair: Pair, request: str) -> None:
    """Wait until the second node has a request of this kind that waits for others."""
    line = f'muster_parked_requests{{request="{request}"}} 1.0'.encode()
    poll_until(lambda: line in pair.clients[1].call("GET", "/metrics?detail=node").body)


def test_a_forwarded_request_is_freed_once_it_is_answered(group: Group) -> None:
    with without_collector():
        for _ in range(5):
            assert group.post("offsets", {"generation": -1, "member_id": "", "offsets": [position(1)]}).status == 200
        poll_until(lambda: requests_in_memory() == 0)
