"""The memory budget of large bodies; small bodies do not count."""

import socket
import time
from collections.abc import Iterator
from contextlib import closing
from urllib.parse import urlsplit

import pytest

from api.shared.client_request import MAX_THROTTLE_S
from tests.support.databases import Databases, offset_log_locked
from tests.support.http_client import Answer, Client, Group, fresh_id, position
from tests.support.nodes import Node, requests_in_memory, running_node, without_collector
from tests.support.waiting import PATIENCE_S, poll_until

BODY_BYTES = 150_000
BUDGET_BYTES = 250_000


@pytest.fixture(scope="module")
def node(databases: Databases) -> Iterator[Node]:
    url = databases.create()
    with running_node(url, max_body_bytes=200_000, max_large_bodies_bytes=BUDGET_BYTES) as node:
        yield node
    databases.drop(url)


@pytest.fixture(scope="module")
def client(node: Node) -> Iterator[Client]:
    with closing(Client(node.url)) as client:
        yield client


def commit(group: Group, size: int) -> Answer:
    """Commit an offset as a simple consumer, in a body of slightly more than the given bytes."""
    offsets = [position(number, partition=number, metadata="m" * 3_000) for number in range(size // 3_000)]
    return group.post("offsets", {"generation": -1, "member_id": "", "offsets": offsets or [position(1)]})


def begun(client: Client, length: str) -> socket.socket:
    """Begin to send a large body, and stop in its midst."""
    place = urlsplit(client.url)
    connection = socket.create_connection((str(place.hostname), place.port or 0), PATIENCE_S)
    head = (
        f"POST /v1/groups/g/offsets HTTP/1.1\r\nHost: {place.netloc}\r\nContent-Type: application/json\r\n{length}\r\n"
    )
    connection.sendall(head.encode())
    return connection


def test_large_bodies_are_refused_while_others_take_the_budget(client: Client) -> None:
    group = client.group(fresh_id())
    with begun(client, f"Content-Length: {BODY_BYTES}\r\n"):
        poll_until(lambda: commit(group, BODY_BYTES).status == 503)
        refused = commit(group, BODY_BYTES)
        assert (refused.code, refused.headers["retry-after"]) == ("COORDINATOR_NOT_AVAILABLE", "1")
        assert "max_large_bodies_bytes" in refused.json["detail"]
        poll_until(lambda: commit(group, 0).status == 200)
        poll_until(lambda: commit(group, 60_000).status == 200)
    for _ in range(6):
        poll_until(lambda: commit(group, BODY_BYTES).status == 200)


def test_body_of_undeclared_length_counts_as_it_arrives(client: Client) -> None:
    group = client.group(fresh_id())
    with begun(client, "Transfer-Encoding: chunked\r\n") as connection:
        assert commit(group, BODY_BYTES).status == 200
        connection.sendall(b"%x\r\n" % BODY_BYTES + b" " * BODY_BYTES + b"\r\n")
        poll_until(lambda: commit(group, BODY_BYTES).status == 503)
    poll_until(lambda: commit(group, BODY_BYTES).status == 200)


def test_refusal_of_a_large_body_is_delayed(databases: Databases) -> None:
    url = databases.create()
    with running_node(url, request_timeout_ms=100) as node, closing(Client(node.url)) as client:
        group = client.group(fresh_id())
        poll_until(lambda: commit(group, 0).status == 200)
        with offset_log_locked(url):
            began_s = time.monotonic()
            refused = commit(group, BODY_BYTES)
            took_s = time.monotonic() - began_s
        assert (refused.status, refused.code) == (503, "COORDINATOR_NOT_AVAILABLE")
        assert took_s >= MAX_THROTTLE_S
    databases.drop(url)


@pytest.mark.parametrize("action", ["offsets", "offsets/reset", "join"])
def test_a_refused_request_is_freed_once_it_is_answered(client: Client, action: str) -> None:
    """The collector comes after tens of thousands of objects: hundreds of requests, each with megabytes of body."""
    group = client.group(fresh_id())
    bodies = {
        "offsets": {"generation": 1, "member_id": "unknown", "offsets": [position(1)]},
        "offsets/reset": {"topics": [], "to": "latest", "dry_run": False, "reason": "r"},
        "join": {**JOIN, "member_id": ""},
    }
    with without_collector():
        # A 503 comes from a node that was paused for longer than its lease.
        poll_until(lambda: {group.post(action, bodies[action]).status for _ in range(5)} <= {400, 404, 409})
        poll_until(lambda: requests_in_memory() == 0)


JOIN = {
    "client_id": "c",
    "session_timeout_ms": 10_000,
    "rebalance_timeout_ms": 10_000,
    "protocol_type": "consumer",
    "protocols": [{"name": "range", "metadata": "A" * 60_000}],
}
