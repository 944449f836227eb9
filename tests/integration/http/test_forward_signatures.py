"""A forward signature is valid for one request to one node, once; a captured request cannot be replayed."""

import contextlib
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from urllib.parse import urlsplit

import pytest
import structlog

from api.http.forward_signature import ForwardSigner, signature_of
from api.http.limits import REPLAY_WINDOW
from api.http.problems import InvalidForwardSignature
from api.shared.limits import ACTOR_MAX_CHARS
from coordinator_core.protocol.errors import CoordinatorNotAvailable
from tests.integration.http.forward_signatures import MAX_AGE_MS, forward_headers
from tests.integration.http.node_pair import OPTIONS, Pair
from tests.support.databases import Databases
from tests.support.http_client import AS_JSON, Client, Group, fresh_id, position
from tests.support.nodes import CLUSTER_SECRET, running_node
from tests.support.waiting import PATIENCE_S

HERE = "http://here:8080"
TARGET = b"PUT /v1/topics/t?x=1"
ASKED = {b"x-muster-actor": b"ada", b"idempotency-key": b"k"}
STARTED_AT_MS = 1_000_000_000_000


class Clock:
    """A wall clock that a test sets."""

    def __init__(self) -> None:
        self.now_ms = STARTED_AT_MS

    def __call__(self) -> int:
        return self.now_ms


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def here(clock: Clock) -> ForwardSigner:
    return ForwardSigner(CLUSTER_SECRET, HERE, MAX_AGE_MS, clock)


def signed(
    clock: Clock, body: bytes = b"{}", node_url: str = HERE, signer: ForwardSigner | None = None
) -> dict[bytes, bytes]:
    """Return the headers of a request as they arrive."""
    signer = signer or ForwardSigner(CLUSTER_SECRET, "http://there", MAX_AGE_MS, clock)
    return ASKED | dict(signer.headers(TARGET, body, ASKED, "192.0.2.7", node_url=node_url))


def fault(here: ForwardSigner, headers: Mapping[bytes, bytes], target: bytes = TARGET) -> str:
    with pytest.raises(InvalidForwardSignature) as refused:
        here.read(target, headers)
    return refused.value.fault


def test_signature_is_accepted_once(here: ForwardSigner, clock: Clock) -> None:
    headers = signed(clock)

    assert here.read(TARGET, headers).client_host == "192.0.2.7"
    assert fault(here, headers) == "replay"


def test_signature_covers_the_receiving_node(here: ForwardSigner, clock: Clock) -> None:
    assert fault(here, signed(clock, node_url="http://elsewhere:8080")) == "node"


@pytest.mark.parametrize("changed", sorted({*signed(Clock()), b"x-muster-forwarded-identity"}))
@pytest.mark.parametrize("value", [b"another", None])
def test_every_forward_header_is_signed(here: ForwardSigner, clock: Clock, changed: bytes, value: bytes | None) -> None:
    headers = signed(clock)
    if value is None and changed not in headers:
        return
    if value is None:
        del headers[changed]
    else:
        headers[changed] = value

    assert fault(here, headers) == "signature"


@pytest.mark.parametrize(
    "identity",
    [
        b"",
        b"ada",
        b"null",
        b"{}",
        b'["ada"]',
        b'["ada", "root"]',
        b'["", "agent"]',
        b'["ada", "agent", [1]]',
        b'["a\\u0000", "agent"]',
        b'["a\\ud800", "agent"]',
        b'["\xff", "agent"]',
        b'["%b", "agent"]' % (b"a" * (ACTOR_MAX_CHARS + 1)),
        b"[" * 10_000,
    ],
)
def test_signed_identity_that_cannot_be_read_is_refused(here: ForwardSigner, clock: Clock, identity: bytes) -> None:
    headers = signed(clock) | {b"x-muster-forwarded-identity": identity}
    headers[b"x-muster-forward-signature"] = signature_of(here._secret, TARGET, headers)

    assert fault(here, headers) == "identity"


@pytest.mark.parametrize("target", [b"DELETE /v1/topics/t?x=1", b"PUT /v1/topics/u?x=1", b"PUT /v1/topics/t?x=2"])
def test_signature_covers_the_target(here: ForwardSigner, clock: Clock, target: bytes) -> None:
    assert fault(here, signed(clock), target) == "signature"


def test_signature_covers_the_body(here: ForwardSigner, clock: Clock) -> None:
    read = here.read(TARGET, signed(clock))

    read.check_body(b"{}")
    with pytest.raises(InvalidForwardSignature) as refused:
        read.check_body(b"{ }")
    assert refused.value.fault == "body"


@pytest.mark.parametrize(
    "header", [b"x-muster-forward-at", b"x-muster-forward-nonce", b"content-digest", b"x-muster-forward-to"]
)
def test_incomplete_signature_is_rejected(clock: Clock, header: bytes) -> None:
    open_node = ForwardSigner("", HERE, MAX_AGE_MS, clock)
    headers = {
        name: value for name, value in signed(clock, signer=ForwardSigner("", "", 1, clock)).items() if name != header
    }
    headers[b"x-muster-forward-signature"] = signature_of(open_node._secret, TARGET, headers)

    assert fault(open_node, headers) == "signature"


@pytest.mark.parametrize(("passed_ms", "is_good"), [(MAX_AGE_MS, True), (MAX_AGE_MS + 1, False)])
def test_signature_expires(here: ForwardSigner, clock: Clock, passed_ms: int, is_good: bool) -> None:
    headers = signed(clock)
    clock.now_ms += passed_ms
    if is_good:
        here.read(TARGET, headers)
    else:
        assert fault(here, headers) == "clock"


def test_signature_from_a_clock_too_far_ahead_is_refused_with_the_difference(here: ForwardSigner, clock: Clock) -> None:
    clock.now_ms += 45_000
    headers = signed(clock)
    clock.now_ms -= 45_000

    with pytest.raises(InvalidForwardSignature, match="45000 ms ahead of this node's clock: compare the clocks"):
        here.read(TARGET, headers)


def test_signature_older_than_the_node_is_answered_with_retry(clock: Clock) -> None:
    headers = signed(clock)
    clock.now_ms += 1
    restarted = ForwardSigner(CLUSTER_SECRET, HERE, MAX_AGE_MS, clock)

    with pytest.raises(CoordinatorNotAvailable, match="before this node started"):
        restarted.read(TARGET, headers)


def test_signatures_arriving_out_of_order_are_accepted_once_each(here: ForwardSigner, clock: Clock) -> None:
    there = ForwardSigner(CLUSTER_SECRET, "http://there", MAX_AGE_MS, clock)
    sent = [signed(clock, signer=there) for _ in range(6)]

    for number in (5, 0, 3, 1, 4, 2):
        here.read(TARGET, sent[number])
    assert {fault(here, each) for each in sent} == {"replay"}


def test_signature_older_than_the_replay_window_is_a_replay(here: ForwardSigner, clock: Clock) -> None:
    there = ForwardSigner(CLUSTER_SECRET, "http://there", MAX_AGE_MS, clock)
    first, second = signed(clock, signer=there), signed(clock, signer=there)
    for _ in range(REPLAY_WINDOW - 1):
        next(there._numbers)
    here.read(TARGET, signed(clock, signer=there))

    assert fault(here, first) == fault(here, second) == "replay"
    here.read(TARGET, signed(clock, signer=there))


def test_replay_windows_of_stopped_nodes_are_dropped(here: ForwardSigner, clock: Clock) -> None:
    for _ in range(20):
        clock.now_ms += MAX_AGE_MS
        here.read(TARGET, signed(clock))

    assert len(here._windows) <= 4


# -- captured on the wire -----------------------------------------------------------------------------------


class Wiretap:
    """A proxy between two nodes that records requests to the second one."""

    def __init__(self) -> None:
        self.captured: list[bytes] = []
        self.to: tuple[str, int] | None = None
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                caller, _ = self._listener.accept()
                assert self.to is not None
                owner = socket.create_connection(self.to)
                threading.Thread(target=self._relay, args=(caller, owner, self.captured), daemon=True).start()
                threading.Thread(target=self._relay, args=(owner, caller, []), daemon=True).start()

    @staticmethod
    def _relay(source: socket.socket, sink: socket.socket, kept: list[bytes]) -> None:
        with contextlib.suppress(OSError), source, sink:
            while data := source.recv(1_048_576):
                kept.append(data)
                sink.sendall(data)
            sink.shutdown(socket.SHUT_RDWR)


class Tapped:
    """Two nodes, and what the first has forwarded to the second."""

    def __init__(self, pair: Pair, wiretap: Wiretap, group: Group) -> None:
        self.pair = pair
        self.wiretap = wiretap
        self.group = group

    def refused(self, reason: str) -> float:
        """Return how many forwarded requests the second node has refused for this reason."""
        line = f'muster_forward_signatures_refused_total{{reason="{reason}"}} '
        text = self.pair.clients[1].send("GET", "/metrics?detail=node").body.decode()
        return float(text.partition(line)[2].partition("\n")[0])


@pytest.fixture(scope="module")
def tapped(databases: Databases) -> Iterator[Tapped]:
    url, wiretap = databases.create(), Wiretap()
    with ExitStack() as stack:
        first = stack.enter_context(running_node(url, **OPTIONS))
        second = stack.enter_context(running_node(url, **OPTIONS, advertised_url=wiretap.url))
        wiretap.to = ("127.0.0.1", second.settings.http_port)
        pair = Pair([first, second])
        pair.clients[1] = Client(f"http://127.0.0.1:{second.settings.http_port}")
        pair.balance_shards()
        yield Tapped(pair, wiretap, pair.elsewhere())
        for client in pair.clients:
            client.close()
    wiretap.close()
    databases.drop(url)


def captured_commit(tapped: Tapped) -> bytes:
    """Commit through the first node, and return the bytes of the forwarded request."""
    tapped.wiretap.captured.clear()
    answer = tapped.group.post("offsets", {"generation": -1, "member_id": "", "offsets": [position(41)]})
    assert answer.status == 200
    return b"".join(tapped.wiretap.captured)


def sent_again(client: Client, captured: bytes) -> bytes:
    place = urlsplit(client.url)
    with socket.create_connection((str(place.hostname), place.port), PATIENCE_S) as connection:
        connection.sendall(captured)
        return connection.recv(65_536)


def test_a_captured_request_cannot_be_sent_again(tapped: Tapped) -> None:
    captured, before = captured_commit(tapped), tapped.refused("replay")
    newer = {"generation": -1, "member_id": "", "offsets": [position(50)]}
    assert tapped.group.post("offsets", newer).status == 200

    with structlog.testing.capture_logs() as events:
        answer = sent_again(tapped.pair.clients[1], captured)

    assert answer.startswith(b"HTTP/1.1 403 ")
    assert b"CLUSTER_AUTHORIZATION_FAILED" in answer
    assert tapped.group.client.ok("GET", f"{tapped.group.path}/offsets")["offsets"][0]["offset"] == 50
    assert tapped.refused("replay") == before + 1
    (event,) = [each for each in events if each["event"] == "forward_signature_refused"]
    assert (event["fault"], event["log_level"], event["client"]) == ("replay", "warning", "127.0.0.1")


def test_captured_request_is_rejected_by_another_node(tapped: Tapped) -> None:
    answer = sent_again(tapped.pair.clients[0], captured_commit(tapped))

    assert answer.startswith(b"HTTP/1.1 403 ")
    assert f"the request was forwarded to {tapped.wiretap.url}".encode() in answer


def test_captured_request_cannot_be_signed_by_another_node(tapped: Tapped) -> None:
    captured = captured_commit(tapped)

    answer = sent_again(
        tapped.pair.clients[1], captured.replace(b"\r\nx-muster-actor: ada", b"\r\nx-muster-actor: eve")
    )

    assert b"x-muster-actor: ada" in captured
    assert answer.startswith(b"HTTP/1.1 403 ")


def test_wrong_node_clock_is_reported_with_its_skew(tapped: Tapped) -> None:
    before = tapped.refused("clock")
    client, path = tapped.pair.clients[1], f"/v1/groups/{fresh_id()}/offsets"
    late = forward_headers(CLUSTER_SECRET, tapped.wiretap.url, f"GET {path}", ahead_ms=-60_000)
    answer = client.send("GET", path, headers=late)

    assert (answer.status, answer.code) == (403, "CLUSTER_AUTHORIZATION_FAILED")
    assert "compare the clocks of the two nodes" in answer.json["detail"]
    assert tapped.refused("clock") == before + 1


def test_non_ascii_actor_is_forwarded_unchanged(tapped: Tapped) -> None:
    client, group = tapped.pair.clients[0], tapped.pair.elsewhere()
    body = {"values": {"group_max_size": 7}, "reason": "a test"}
    answer = client.send(
        "PUT",
        f"{group.path}/config",
        client.encoded(body),
        {**AS_JSON, "X-Muster-Actor": "jürgen".encode()},  # type: ignore[dict-item]  # bytes are sent as they are
    )

    change = client.ok("GET", f"/v1/changes/{answer.headers['x-muster-change-id']}")
    assert change["actor"] == "jürgen"
