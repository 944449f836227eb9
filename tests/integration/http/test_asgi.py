"""Request ids, the owner header, deadlines, request counters, and malformed HTTP."""

import asyncio
import json
import re
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from uuid import uuid4

import psycopg2
import pytest
import structlog

from api.http.limits import HttpLimits
from api.shared.turns import LONG_POLLS_AT_ONCE
from muster.settings import psql_url
from tests.integration.http.in_process import answer_of, http_server
from tests.support.databases import Databases
from tests.support.http_client import Client, Group, Json, fresh_id, position
from tests.support.nodes import running_node
from tests.support.waiting import PATIENCE_S, poll_until

COMMIT = {"generation": -1, "member_id": "", "offsets": [position(1), position(2, partition=1)]}


@pytest.fixture
def events() -> Iterator[list[Json]]:
    """Give what is logged from now on."""
    with structlog.testing.capture_logs() as events:
        yield events


# -- ids and owners -------------------------------------------------------------------------------------


def test_request_id_is_returned(client: Client) -> None:
    assert client.call("GET", "/healthz", headers={"X-Request-Id": "mine-1"}).headers["x-request-id"] == "mine-1"


@pytest.mark.parametrize("unusable", ["", "with space", "x" * 129, "caf\xe9"])
def test_request_without_a_valid_id_gets_one(client: Client, unusable: str) -> None:
    answers = [client.call("GET", "/healthz", headers={"X-Request-Id": unusable}) for _ in range(2)]

    first, second = (answer.headers["x-request-id"] for answer in answers)
    assert re.fullmatch(r"[0-9a-f]{32}", first)
    assert first != second


def test_refusals_carry_the_id_too(client: Client) -> None:
    assert client.call("GET", "/nope", headers={"X-Request-Id": "mine-2"}).headers["x-request-id"] == "mine-2"


def test_every_response_about_a_group_names_its_coordinator(client: Client, group: Group) -> None:
    answers = [
        group.post("offsets", COMMIT),
        group.post("heartbeat", {"generation": 1, "member_id": "nobody"}),
        client.call("GET", group.path),
    ]

    assert [answer.headers["x-muster-coordinator"] for answer in answers] == [client.url] * 3
    assert "x-muster-coordinator" not in client.call("GET", "/v1/groups").headers


# -- deadlines ------------------------------------------------------------------------------------------


def test_request_timeout_is_answered_with_retry(databases: Databases) -> None:
    url = databases.create()
    with (
        running_node(url, request_timeout_ms=200) as node,
        closing(Client(node.url)) as client,
        _locked_topics(url),
    ):
        answer = client.call("GET", "/v1/topics")
    databases.drop(url)

    assert (answer.status, answer.code, answer.json["action"]) == (503, "COORDINATOR_NOT_AVAILABLE", "retry")
    assert answer.json["detail"] == "no answer within 200 ms"
    assert answer.headers["retry-after"] == "1"


@contextmanager
def _locked_topics(url: str) -> Iterator[None]:
    """Lock the table of topic metadata, so that reads of it wait."""
    with closing(psycopg2.connect(psql_url(url))) as connection, connection.cursor() as cursor:
        cursor.execute("LOCK TABLE topics IN ACCESS EXCLUSIVE MODE")
        yield


# -- a node that stops ------------------------------------------------------------------------------------


def test_request_cancelled_by_a_stop_is_answered_with_retry() -> None:
    status, body = asyncio.run(cut_off(is_stopping=True))

    assert status == 503
    assert (body["code"], body["action"], body["detail"]) == (
        "COORDINATOR_NOT_AVAILABLE",
        "retry",
        "this node is stopping",
    )


def test_request_cancelled_elsewhere_is_not_answered() -> None:
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cut_off(is_stopping=False))


async def cut_off(*, is_stopping: bool) -> tuple[int, Json]:
    """Cancel a request that waits for the database, as a stopping server does, and return the response."""
    async with http_server(HttpLimits(request_timeout_ms=600_000)) as (app, queries):
        asking = asyncio.create_task(answer_of(app, "/v1/topics"))
        await queries.unanswered.wait()
        if is_stopping:
            app.begin_shutdown()
        asking.cancel()
        status, body = await asking
        return status, json.loads(body)


# -- turns -------------------------------------------------------------------------------------------------


def test_heartbeat_is_answered_between_many_joins() -> None:
    answered = asyncio.run(joins_and_a_heartbeat())

    assert len(answered) == 3 * LONG_POLLS_AT_ONCE + 1
    assert answered.index("heartbeat") <= LONG_POLLS_AT_ONCE


async def joins_and_a_heartbeat() -> list[str]:
    """Send many joins and a heartbeat behind them, all without a body; return what was answered, in order."""
    answered: list[str] = []
    async with http_server() as (app, _):

        async def ask(action: str) -> None:
            status, _ = await answer_of(app, f"/v1/groups/many/{action}", method="POST")
            assert status == 400
            answered.append(action)

        await asyncio.gather(*map(ask, [*(3 * LONG_POLLS_AT_ONCE) * ["join"], "heartbeat"]))
    return answered


# -- a node without memory ---------------------------------------------------------------------------------


def test_request_that_finds_no_memory_is_answered_with_retry(events: list[Json]) -> None:
    status, body = asyncio.run(without_memory())
    refusal = json.loads(body)

    assert (status, refusal["code"], refusal["action"]) == (503, "COORDINATOR_NOT_AVAILABLE", "retry")
    assert refusal["detail"] == "the node has not enough memory for this request"
    assert "request_failed" not in {event["event"] for event in events}


async def without_memory() -> tuple[int, bytes]:
    async with http_server() as (app, queries):
        queries.failure = MemoryError()
        return await answer_of(app, "/v1/topics")


# -- counters and events ----------------------------------------------------------------------------------


def test_requests_and_refusals_are_counted_by_name(client: Client, group: Group) -> None:
    before = _counters(client)
    group.post("offsets", COMMIT)
    group.post("heartbeat", {"generation": 1, "member_id": "nobody"})
    client.call("GET", "/v1/groups/g/nope")

    after = _counters(client)

    def grown(name: str) -> float:
        return after.get(name, 0) - before.get(name, 0)

    assert grown('muster_requests_total{request="OffsetCommit"}') == 1
    assert grown("muster_offset_commit_total") == 2
    assert grown('muster_errors_total{error="UNKNOWN_MEMBER_ID",request="Heartbeat"}') == 1
    assert grown('muster_errors_total{error="INVALID_REQUEST",request="unknown"}') == 1
    assert grown('muster_errors_total{error="NONE",request="OffsetCommit"}') == 0


def _counters(client: Client) -> dict[str, float]:
    answer = client.call("GET", "/metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    lines = [line for line in answer.body.decode().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def test_rejection_is_logged_once(client: Client, group: Group, events: list[Json]) -> None:
    answer = group.post("heartbeat", {"generation": 1, "member_id": "nobody"})

    (event,) = [each for each in events if each["event"] == "request_refused"]
    assert event.pop("took_ms") >= 0
    assert event == {
        "event": "request_refused",
        "log_level": "info",
        "request": "Heartbeat",
        "request_id": answer.headers["x-request-id"],
        "group": group.group_id,
        "status": 404,
        "code": "UNKNOWN_MEMBER_ID",
        "actor": None,
        "change_id": None,
        "token_id": None,
        "client": "127.0.0.1",
    }


def test_operator_change_is_logged_once_with_its_actor(client: Client, events: list[Json]) -> None:
    answer = client.call("PUT", f"/v1/topics/{fresh_id()}", {"partitions": 1})

    (event,) = [each for each in events if each["event"] == "change_recorded"]
    assert (event["request"], event["actor"]) == ("PutTopic", "ada")
    assert event["change_id"] == answer.headers["x-muster-change-id"]


def test_repeated_operator_change_is_logged_as_the_first_time(client: Client, events: list[Json]) -> None:
    path, key = f"/v1/topics/{fresh_id()}", {"Idempotency-Key": str(uuid4())}
    for _ in range(2):
        client.ok("PUT", path, {"partitions": 1}, key)

    first, again = [each for each in events if each["event"] == "change_recorded"]
    differing = {"request_id", "took_ms"}
    assert {name: again[name] for name in first if name not in differing} == {
        name: value for name, value in first.items() if name not in differing
    }


def test_requests_of_agents_are_counted_and_not_logged(client: Client, group: Group, events: list[Json]) -> None:
    member = group.stable()
    member.post("heartbeat")
    member.commit(position(1))
    client.ok("GET", f"{group.path}/offsets")

    assert [each for each in events if each["event"] in {"change_recorded", "request_refused"}] == []


# -- the wire -------------------------------------------------------------------------------------------


def test_malformed_http_is_answered_with_a_problem_document(client: Client) -> None:
    answer = _exchange(client, b"HELLO muster\r\n\r\n")

    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert b"content-type: application/problem+json" in head
    assert b'"code":"INVALID_REQUEST"' in body


def test_a_path_with_raw_bytes_is_refused(client: Client) -> None:
    answer = _exchange(client, b"GET /v1/groups/\xc3\xa9 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")

    assert b"400 Bad Request" in answer


@pytest.mark.parametrize("is_at_once", [True, False])
def test_a_request_that_asks_for_another_protocol_is_answered_with_its_body(
    client: Client, group: Group, *, is_at_once: bool
) -> None:
    body = client.encoded(COMMIT)
    head = (
        f"POST {group.path}/offsets HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    ).encode()
    last = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    with _connected(client) as connection:
        for part in [head + body + head + body + last] if is_at_once else [head, body, head, body, last]:
            connection.sendall(part)
        answers = _read_all(connection)

    assert answers.count(b"HTTP/1.1 200 OK") == 3, answers
    assert answers.count(b'"code":"NONE"') == 4
    assert b'{"status":"alive"}' in answers


def test_a_tunnel_is_refused(client: Client) -> None:
    assert _exchange(client, b"CONNECT / HTTP/1.1\r\nHost: localhost\r\nUpgrade: h2c\r\n\r\n").startswith(
        b"HTTP/1.1 400 Bad Request"
    )


def test_connection_remains_usable_after_a_rejected_body(client: Client) -> None:
    with _connected(client) as connection:
        size = 9_000_000
        connection.sendall(b"POST /v1/groups/g/join HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % size)
        connection.sendall(b"x" * size)
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        answer = _read_all(connection)

    assert b"HTTP/1.1 413 " in answer
    assert b'{"status":"alive"}' in answer


def test_body_with_a_declared_length_over_the_limit_is_refused_at_once(client: Client) -> None:
    with _connected(client) as connection:
        connection.sendall(b"POST /v1/groups/g/join HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9000000\r\n\r\n")

        assert connection.recv(65_536).startswith(b"HTTP/1.1 413 ")


def test_disconnecting_client_does_not_affect_others(client: Client, group: Group, events: list[Json]) -> None:
    head = f"POST {group.path}/join HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{{"
    with _connected(client) as connection:
        connection.sendall(head.encode())

    poll_until(lambda: client.call("GET", "/readyz").status == 200)
    assert [each for each in events if each["log_level"] == "error"] == []


def _connected(client: Client) -> socket.socket:
    host, _, port = client.address.partition(":")
    return socket.create_connection((host, int(port)), PATIENCE_S)


def _exchange(client: Client, request: bytes) -> bytes:
    with _connected(client) as connection:
        connection.sendall(request)
        return _read_all(connection)


def _read_all(connection: socket.socket) -> bytes:
    return b"".join(iter(lambda: connection.recv(65_536), b""))
