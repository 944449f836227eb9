"""Slow or numerous clients exhaust neither connections nor memory of a node; other clients are served."""

import contextlib
import gc
import os
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
import structlog
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from api.http.connection import HttpConnection
from muster.errors import UserError
from muster.node.file_descriptors import connection_limit
from muster.settings import Settings
from tests.integration.http.connection_counts import closed_for, counted, read_all
from tests.integration.http.forward_signatures import forward_headers
from tests.support.databases import Databases
from tests.support.http_client import Client, Json, fresh_id
from tests.support.nodes import CLUSTER_SECRET, running_kafka_node, running_node
from tests.support.ports import free_port
from tests.support.waiting import PATIENCE_S, poll_until

QUICK: dict[str, int | str] = {"group_initial_rebalance_delay_ms": 0}
SLOW_MS = 300
HEAD = b"POST /v1/groups/g/offsets HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
UNENDING = HEAD + b"Content-Length: 8000000\r\n\r\n"
MAX_CONNECTIONS = 40
HEALTH_CONNECTIONS = 16
FLOOD = 600


@pytest.fixture(scope="module")
def impatient(databases: Databases) -> Iterator[Client]:
    """Serve a node that waits for heads and bodies for a moment only."""
    url = databases.create()
    options = {**QUICK, "head_timeout_ms": SLOW_MS, "body_timeout_ms": SLOW_MS}
    with running_node(url, **options) as node, closing(Client(node.url)) as client:
        yield client
    databases.drop(url)


@pytest.fixture
def crowded(databases: Databases) -> Iterator[Client]:
    """Serve a node with a low connection limit."""
    url = databases.create()
    options = {**QUICK, "max_connections": MAX_CONNECTIONS, "max_connections_per_ip": MAX_CONNECTIONS - 10}
    with running_node(url, **options) as node, closing(Client(node.url)) as client:
        yield client
    databases.drop(url)


def connected(client: Client, source: str = "127.0.0.1") -> socket.socket:
    host, _, port = client.address.partition(":")
    return socket.create_connection((host, int(port)), PATIENCE_S, source_address=(source, 0))


# -- slow callers -----------------------------------------------------------------------------------------


def trickle(connection: socket.socket, piece: bytes) -> None:
    """Send a little at a time, until the node has had enough."""
    connection.settimeout(SLOW_MS / 1000 / 10)
    until_s = time.monotonic() + PATIENCE_S
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        while time.monotonic() < until_s:
            connection.sendall(piece)
            with contextlib.suppress(TimeoutError):
                if not connection.recv(1, socket.MSG_PEEK):
                    return
                return
    connection.settimeout(PATIENCE_S)


@pytest.mark.parametrize(
    ("sent", "piece", "phase"),
    [
        (b"GET /healthz HTTP/1.1\r\n", b"X: y\r\n", "head"),
        (b"GET /heal", b"z", "head"),
        (UNENDING, b" ", "body"),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n", "body"),
    ],
)
def test_a_request_that_arrives_slowly_is_cut_off(impatient: Client, sent: bytes, piece: bytes, phase: str) -> None:
    before = closed_for(impatient, f"{phase}_timeout")
    with connected(impatient) as connection:
        connection.sendall(sent)
        trickle(connection, piece)
        connection.settimeout(PATIENCE_S)
        answer = read_all(connection)

    assert answer.startswith(b"HTTP/1.1 408 Request Timeout\r\n")
    assert b'"code":"REQUEST_TIMED_OUT"' in answer
    assert b'"action":"retry"' in answer
    assert closed_for(impatient, f"{phase}_timeout") == before + 1


def test_connection_without_a_request_is_closed(impatient: Client) -> None:
    with connected(impatient) as connection:
        assert read_all(connection) == b""


def test_second_request_of_a_connection_has_the_header_deadline(impatient: Client) -> None:
    with connected(impatient) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b'"alive"' in connection.recv(65_536)
        connection.sendall(b"GET /healthz HTTP/1.1\r\n")

        assert read_all(connection).startswith(b"HTTP/1.1 408 ")


def test_remaining_body_of_a_rejected_request_has_a_deadline(impatient: Client) -> None:
    with connected(impatient) as connection:
        connection.sendall(HEAD + b"Content-Length: 99999999\r\n\r\n")
        assert connection.recv(65_536).startswith(b"HTTP/1.1 413 ")

        assert read_all(connection) == b""


def test_connection_remains_open_for_the_keep_alive_time_after_a_response(impatient: Client) -> None:
    with connected(impatient) as connection:
        for _ in range(2):
            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert b'"alive"' in connection.recv(65_536)
            time.sleep(3 * SLOW_MS / 1000)


def test_long_poll_is_not_ended_by_read_deadlines(impatient: Client) -> None:
    group = impatient.group(fresh_id())
    first = group.stable()
    waiting = impatient.later(group, "join", {**JOIN, "member_id": group.handshake(), "max_wait_ms": 4 * SLOW_MS})
    answer = waiting.result()

    assert (answer.status, answer.json["action"]) == (409, "retry")
    assert first.post("heartbeat").code == "REBALANCE_IN_PROGRESS"


JOIN = {
    "client_id": "c",
    "session_timeout_ms": 10_000,
    "rebalance_timeout_ms": 10_000,
    "protocol_type": "consumer",
    "protocols": [{"name": "range", "metadata": {"topics": ["orders"]}}],
}


def test_connection_of_a_client_that_reads_nothing_is_closed(databases: Databases) -> None:
    url = databases.create()
    request = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with (
        running_node(url, **QUICK, send_timeout_ms=1_000) as node,
        closing(Client(node.url)) as client,
        connected(client) as deaf,
    ):
        deaf.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            for _ in range(200):
                deaf.send(request)
        poll_until(lambda: open_counted(client) == 1)
    databases.drop(url)


# -- trailers, and further requests of a connection -------------------------------------------------------

CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
LAST_HEALTH = HEALTH.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
JOIN_AND_WAIT = b"POST /v1/groups/slow/join HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


def answered(client: Client, sent: bytes) -> bytes:
    """Return everything received until the node closes the connection, possibly during a write."""
    with connected(client) as connection:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            connection.sendall(sent)
        return read_all(connection)


@pytest.mark.parametrize(
    "after_the_body",
    [b"".join(b"x%d: y\r\n" % each for each in range(100_000)), b"x: " + b"y" * 10**6, b"x" * 10**6],
    ids=["many", "a long value", "a long name"],
)
def test_trailers_are_limited_as_headers_are(client: Client, after_the_body: bytes) -> None:
    before = closed_for(client, "body_timeout")

    answered(client, CHUNKED + b"2\r\n{}\r\n0\r\n" + after_the_body)

    assert closed_for(client, "body_timeout") == before


def test_trailer_is_not_read_as_a_header(client: Client) -> None:
    answer = answered(client, CHUNKED + b"2\r\n{}\r\n0\r\nHost: elsewhere\r\n\r\n" + LAST_HEALTH)

    assert b"more than one Host" not in answer
    assert b'"alive"' in answer


def test_a_body_in_small_chunks_is_read(client: Client) -> None:
    answer = answered(client, CHUNKED + b"1\r\n \r\n" * 50_000 + b"2\r\n{}\r\n0\r\n\r\n" + LAST_HEALTH)

    assert b"this is not HTTP" not in answer
    assert b'"alive"' in answer


def test_small_chunks_that_arrive_together_are_passed_on_together(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each time that a part is passed on copies the body, so that few connections would keep a node busy."""
    parts: list[bytes] = []
    pass_on = HttpToolsProtocol.on_body

    def counting(connection: HttpToolsProtocol, body: bytes) -> None:
        parts.append(body)
        pass_on(connection, body)

    monkeypatch.setattr(HttpToolsProtocol, "on_body", counting)
    answered(client, CHUNKED + b"1\r\n \r\n" * 50_000 + b"2\r\n{}\r\n0\r\n\r\n" + LAST_HEALTH)

    assert b"".join(parts) == b" " * 50_000 + b"{}"
    assert len(parts) < 5_000


def test_pipelined_requests_do_not_exceed_the_head_limit(client: Client) -> None:
    answer = answered(client, HEALTH * 5_000 + LAST_HEALTH)

    assert answer.count(b"HTTP/1.1 200 OK") == 5_001


@pytest.mark.parametrize("after", [b"garbage\r\n\r\n", HEALTH + b"garbage\r\n\r\n"])
def test_an_earlier_request_is_not_answered_with_the_refusal_of_a_later_one(client: Client, after: bytes) -> None:
    body = client.encoded({**JOIN, "member_id": "", "group_instance_id": fresh_id()})
    with structlog.testing.capture_logs() as events:
        answer = answered(client, JOIN_AND_WAIT + b"Content-Length: %d\r\n\r\n" % len(body) + body + after)

    assert b"HTTP/1.1 400" not in answer
    assert not [each for each in events if each["log_level"] == "error"]


# -- closed connections -------------------------------------------------------------------------------------


def connections_in_memory() -> int:
    return sum(type(each) is HttpConnection for each in gc.get_objects())


def test_a_connection_that_the_client_resets_is_freed(client: Client) -> None:
    """Its keep-alive timer would keep it in memory for a minute after it is no longer counted."""
    before = connections_in_memory()
    for _ in range(20):
        with connected(client) as connection:
            connection.sendall(HEALTH)
            connection.recv(1)  # what is left unread makes closing a reset

    poll_until(lambda: connections_in_memory() <= before)


# -- many callers -----------------------------------------------------------------------------------------


def open_many(client: Client, how_many: int, stack: ExitStack, source: str = "127.0.0.1") -> list[socket.socket]:
    """Open connections that send no request."""
    return [stack.enter_context(connected(client, source)) for _ in range(how_many)]


def open_counted(client: Client) -> float:
    """Return the number of connections, including the one of this request."""
    return counted(client, "muster_connections")


def test_health_is_answered_during_a_thousand_connections(crowded: Client) -> None:
    with structlog.testing.capture_logs() as events, ExitStack() as stack:
        for number in range(FLOOD):
            stack.enter_context(connected(crowded, f"127.0.0.{2 + number % 50}"))

        health = [crowded.send("GET", path).status for path in ("/healthz", "/metrics?detail=node")]
        poll_until(lambda: crowded.send("GET", "/readyz").status == 200)
        refused = crowded.send("GET", "/v1/groups")
        assert health == [200] * 2
        assert (refused.status, refused.code, refused.json["action"]) == (503, "COORDINATOR_NOT_AVAILABLE", "retry")
        assert open_counted(crowded) == MAX_CONNECTIONS
        assert closed_for(crowded, "max_connections") >= FLOOD - MAX_CONNECTIONS

    assert len([each for each in events if each["event"] == "connections_refused"]) == 1
    poll_until(lambda: crowded.send("GET", "/v1/groups").status == 200)


def test_connections_are_limited_by_address(crowded: Client) -> None:
    with ExitStack() as stack:
        open_many(crowded, MAX_CONNECTIONS + 5, stack, "127.0.0.2")

        assert crowded.send("GET", "/v1/groups").status == 200
        assert closed_for(crowded, "max_connections_per_ip") == 15


def test_existing_connections_are_served_during_a_flood(crowded: Client) -> None:
    group = crowded.group(fresh_id())
    member = group.stable()
    host, _, port = crowded.address.partition(":")
    body = crowded.encoded({"generation": member.generation, "member_id": member.member_id})
    beat = (
        f"POST {group.path}/heartbeat HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    ).encode() + body
    with socket.create_connection((host, int(port)), PATIENCE_S) as own, ExitStack() as stack:
        for _ in range(10):
            open_many(crowded, 30, stack, "127.0.0.3")
            own.sendall(beat)
            assert own.recv(65_536).startswith(b"HTTP/1.1 200 ")


# -- bodies of refused requests -----------------------------------------------------------------------------


def answered_without_its_body(client: Client, *headers: str) -> tuple[int, Json]:
    """Send a head that declares eight megabytes without sending them, and return what is received."""
    with connected(client) as connection:
        connection.sendall(
            HEAD + "".join(f"{each}\r\n" for each in headers).encode() + b"Content-Length: 8000000\r\n\r\n"
        )
        answer = connection.recv(65_536)
    return int(answer.split(b" ", 2)[1]), answer


@pytest.mark.parametrize("is_signed", [False, True])
def test_invalid_signature_is_refused_before_the_body_is_read(client: Client, is_signed: bool) -> None:
    signature = forward_headers("another secret, which is as long as ours", client.url, "POST /v1/groups/g/offsets")
    given = signature if is_signed else {"X-Muster-Forwarded-For": "192.0.2.7"}

    status, answer = answered_without_its_body(client, *(f"{name}: {value}" for name, value in given.items()))

    assert status == 403
    assert b"CLUSTER_AUTHORIZATION_FAILED" in answer


def test_unauthenticated_and_cross_site_requests_are_rejected_before_the_body(
    databases: Databases, client: Client, tmp_path: Path
) -> None:
    tokens = tmp_path / "tokens.json"
    tokens.write_text('{"tokens": []}')
    url = databases.create()
    with running_node(url, tokens_file=str(tokens), cluster_secret=CLUSTER_SECRET) as node:
        guarded = Client(node.url)
        assert answered_without_its_body(guarded)[0] == 401
        guarded.close()
    databases.drop(url)
    assert answered_without_its_body(client, "Origin: http://evil.example")[0] == 403


# -- descriptors ------------------------------------------------------------------------------------------


def limited(monkeypatch: pytest.MonkeyPatch, soft: int) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, 4_096))


@pytest.mark.parametrize(
    ("soft", "options", "expected"),
    [
        (resource.RLIM_INFINITY, {}, 8_000),
        (1_024, {}, (1_024 - 158) // 2),
        (1_024, {"forward": False}, 1_024 - 158),
        (1_024, {"max_reads": 104}, (1_024 - 258) // 2),
        (100_000, {"max_connections": 10}, 10),
    ],
)
def test_connection_limit_reserves_descriptors_for_database_and_health(
    monkeypatch: pytest.MonkeyPatch, soft: int, options: dict[str, int], expected: int
) -> None:
    limited(monkeypatch, soft)

    assert connection_limit(Settings(**options)) == expected  # type: ignore[arg-type]  # validated there


def test_too_few_file_descriptors_are_reported_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    limited(monkeypatch, 180)

    with pytest.raises(
        UserError, match=r"^A process may open 180 files here, and a node needs 190 at least; .*ulimit -n"
    ):
        connection_limit(Settings())


def test_lowered_connection_limit_is_logged_once(monkeypatch: pytest.MonkeyPatch, database_url: str) -> None:
    limited(monkeypatch, 1_024)

    with structlog.testing.capture_logs() as events, running_kafka_node(database_url):
        pass

    assert [event["event"] for event in events].count("connection_limit_lowered") == 1


def test_connection_flood_leaves_descriptors_for_the_database(databases: Databases, tmp_path: Path) -> None:
    url, port = databases.create(), free_port()
    client = Client(f"http://127.0.0.1:{port}")
    with serving_with_few_descriptors(url, tmp_path, port) as process, ExitStack() as stack:
        poll_until(lambda: is_ready(client))
        for number in range(FLOOD):
            stack.enter_context(connected(client, f"127.0.0.{2 + number % 50}"))
        used_s = cpu_seconds(process.pid)
        time.sleep(1.0)

        assert cpu_seconds(process.pid) - used_s < 0.7, "the node does not spin"
        assert len([*Path(f"/proc/{process.pid}/fd").iterdir()]) < DESCRIPTORS
        poll_until(lambda: client.send("GET", "/readyz").json == {"is_ready": True, "reasons": []})
        stack.close()
        poll_until(lambda: client.call("PUT", "/v1/topics/t", {"partitions": 3}).status == 200)
    client.close()
    databases.drop(url)


DESCRIPTORS = 300


@contextlib.contextmanager
def serving_with_few_descriptors(database_url: str, data_dir: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """Run `muster serve` as a process that may open few files."""
    environment = {**os.environ, "MUSTER_DATABASE_URL": database_url}
    serve = [sys.executable, "-m", "muster", "serve", "--port", str(port), "--data-dir", str(data_dir)]
    command: Sequence[str] = ["sh", "-c", f'ulimit -n {DESCRIPTORS}; exec "$@"', "sh", *serve]
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.kill()


def is_ready(client: Client) -> bool:
    try:
        return client.send("GET", "/readyz").status == 200
    except OSError:
        return False


def cpu_seconds(pid: int) -> float:
    """Return the processor time that a process has used. Source: proc_pid_stat(5)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
