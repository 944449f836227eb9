"""A node with a certificate: HTTPS, reloaded files, handshakes that fail or never end, client certificates."""

import http.client
import json
import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from math import inf
from pathlib import Path

import pytest
import structlog
from cryptography import x509

from api.shared import handshake_server
from muster.errors import UserError
from tests.integration.http.connection_counts import closed_for, counted, read_all
from tests.integration.http.node_pair import OPTIONS, Pair
from tests.support.certificates import Authority
from tests.support.databases import Databases
from tests.support.http_client import Client, fresh_id
from tests.support.nodes import CLUSTER_SECRET, Node, running_node
from tests.support.tokens_file import ADA, TokensFile
from tests.support.waiting import PATIENCE_S, poll_until

QUICK: dict[str, int | str] = {"group_initial_rebalance_delay_ms": 0}
BILLING = {"certificate": "CN=billing", "actor": "billing", "role": "agent", "prefixes": ["billing-"]}
SPIFFE = {"certificate": "URI:spiffe://example.org/ops", "actor": "ops", "role": "operator"}
PATIENT = QUICK | {"handshake_timeout_ms": 600_000}
MAX_CONNECTIONS = 40
SOON_DAYS = 3
SOON_S = 6


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def certificate(authority: Authority) -> Path:
    return authority.issue("node", file=f"{fresh_id()}.pem")


@pytest.fixture
def node(databases: Databases, certificate: Path) -> Iterator[Node]:
    url = databases.create()
    with running_node(url, **QUICK, tls_certificate_file=str(certificate)) as node:
        yield node
    databases.drop(url)


@pytest.fixture
def client(node: Node, authority: Authority) -> Iterator[Client]:
    with closing(Client(node.url, authority.trusted())) as client:
        yield client


@pytest.fixture
def tokens(tmp_path: Path) -> TokensFile:
    return TokensFile.written(tmp_path, ADA, BILLING, SPIFFE)


@pytest.fixture
def guarded(databases: Databases, authority: Authority, tokens: TokensFile) -> Iterator[Node]:
    """Serve a node with a tokens file, which asks clients for certificates."""
    url = databases.create()
    options = QUICK | {
        "tls_certificate_file": str(authority.issue("node")),
        "tls_client_ca_file": str(authority.path),
        "tokens_file": str(tokens.path),
        "cluster_secret": CLUSTER_SECRET,
    }
    with running_node(url, **options) as node:
        yield node
    databases.drop(url)


def connected(node: Node) -> socket.socket:
    return socket.create_connection(("127.0.0.1", node.settings.http_port), PATIENCE_S)


# -- serving ------------------------------------------------------------------------------------------------


def test_member_joins_and_commits_over_https(client: Client) -> None:
    member = client.group(fresh_id()).stable()

    assert client.url.startswith("https://")
    assert member.post("heartbeat").status == 200


def test_client_that_trusts_another_authority_ends_the_handshake(node: Node, tmp_path: Path) -> None:
    other = Client(node.url, Authority(tmp_path, "other").trusted())

    with pytest.raises(ssl.SSLCertVerificationError):
        other.send("GET", "/healthz")


def test_tls_1_1_is_refused(node: Node, authority: Authority) -> None:
    old = authority.trusted()
    old.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1

    with pytest.raises(ssl.SSLError):
        Client(node.url, old).send("GET", "/healthz")


def test_plain_http_is_closed_with_one_event(client: Client, node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handshake_server, "LOG_INTERVAL_S", inf)
    with structlog.testing.capture_logs() as logged:
        for _ in range(5):
            with connected(node) as plain:
                plain.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
                assert b"HTTP/1.1" not in read_all(plain)
        poll_until(lambda: closed_for(client, "handshake_failed") == 5)

    (event,) = [each for each in logged if each["event"] == "tls_handshakes_failed"]
    assert (event["log_level"], event["reason"], event["client"]) == ("warning", "HTTP_REQUEST", "127.0.0.1")


def test_probe_that_only_connects_is_no_failed_handshake(client: Client, node: Node) -> None:
    for _ in range(5):
        connected(node).close()
    poll_until(lambda: counted(client, "muster_connections") == 1)

    assert closed_for(client, "handshake_failed") == 0


# -- limits -------------------------------------------------------------------------------------------------


def test_client_that_never_ends_its_handshake_is_closed(
    databases: Databases, authority: Authority, certificate: Path
) -> None:
    url = databases.create()
    options = QUICK | {"handshake_timeout_ms": 300, "tls_certificate_file": str(certificate)}
    with (
        structlog.testing.capture_logs() as logged,
        running_node(url, **options) as node,
        closing(Client(node.url, authority.trusted())) as client,
        connected(node) as silent,
        connected(node) as late,
    ):
        late.sendall(b"\x16\x03\x01\x02\x00")
        assert read_all(silent) == read_all(late) == b""

        def has_counted() -> bool:
            with suppress(OSError):  # a busy machine may be late with this handshake, too
                return closed_for(client, "handshake_failed") >= 2
            return False

        poll_until(has_counted)
    databases.drop(url)

    first = next(each for each in logged if each["event"] == "tls_handshakes_failed")
    assert "0.3 seconds" in first["reason"]


def test_handshakes_count_as_connections(databases: Databases, authority: Authority, certificate: Path) -> None:
    url = databases.create()
    options = PATIENT | {
        "max_connections": MAX_CONNECTIONS,
        "max_connections_per_ip": MAX_CONNECTIONS,
        "tls_certificate_file": str(certificate),
    }
    with ExitStack() as stack:
        node = stack.enter_context(running_node(url, **options))
        client = stack.enter_context(closing(Client(node.url, authority.trusted())))

        def is_full() -> bool:
            stack.enter_context(connected(node))
            return client.send("GET", "/v1/groups").status == 503

        poll_until(is_full)
        assert client.send("GET", "/healthz").status == 200
    databases.drop(url)


def test_node_stops_while_a_handshake_is_in_progress(
    databases: Databases, authority: Authority, certificate: Path
) -> None:
    url = databases.create()
    with ExitStack() as stack:
        with (
            running_node(url, **PATIENT, tls_certificate_file=str(certificate)) as node,
            closing(Client(node.url, authority.trusted())) as client,
        ):
            silent = stack.enter_context(connected(node))
            poll_until(lambda: counted(client, "muster_connections") == 2)
        assert read_all(silent) == b""
    databases.drop(url)


# -- reloading ----------------------------------------------------------------------------------------------


def serial_number(node: Node, authority: Authority) -> str:
    with connected(node) as plain, authority.trusted().wrap_socket(plain, server_hostname="127.0.0.1") as secure:
        certificate = secure.getpeercert()
    assert certificate
    return str(certificate["serialNumber"])


def test_certificate_is_reloaded_and_no_connection_is_dropped(
    node: Node, client: Client, authority: Authority, certificate: Path
) -> None:
    kept = client.connect()
    with closing(kept):
        kept.request("GET", "/healthz")
        assert kept.getresponse().read()
        before, socket_before = serial_number(node, authority), kept.sock
        authority.issue("node", file=certificate.name)
        poll_until(lambda: serial_number(node, authority) != before)
        kept.request("GET", "/healthz")
        assert kept.getresponse().status == 200
        assert kept.sock is socket_before


def test_broken_certificate_is_logged_and_the_previous_one_is_kept(
    node: Node, authority: Authority, certificate: Path
) -> None:
    before = serial_number(node, authority)
    with structlog.testing.capture_logs() as logged:
        broken = certificate.with_suffix(".broken")
        broken.write_text("no certificate")
        broken.replace(certificate)
        poll_until(lambda: [each for each in logged if each["event"] == "tls_reload_failed"])
        assert serial_number(node, authority) == before
        authority.issue("node", file=certificate.name)
        poll_until(lambda: serial_number(node, authority) != before)

    (event,) = [each for each in logged if each["event"] == "tls_reload_failed"]
    assert event["log_level"] == "error"
    assert str(certificate) in event["reason"]


def test_certificate_that_expires_soon_is_warned_about(
    databases: Databases, authority: Authority, tmp_path: Path
) -> None:
    url = databases.create()
    soon = authority.issue("soon", days=SOON_DAYS)
    with (
        structlog.testing.capture_logs() as logged,
        running_node(url, **QUICK, tls_certificate_file=str(soon)) as node,
        closing(Client(node.url, authority.trusted())) as client,
    ):
        poll_until(lambda: [each for each in logged if each["event"] == "tls_certificate_expiring"])
        poll_until(lambda: client.send("GET", "/readyz").status == 200)
        readiness = client.send("GET", "/readyz").json
        expires_at_s = counted(client, "muster_tls_certificate_expiry_timestamp_seconds")
    databases.drop(url)

    assert readiness["is_ready"] is True
    assert readiness["reasons"] == ["the TLS certificate of the node expires within 14 days, or has expired"]
    with soon.open("rb") as file:
        certificate = x509.load_pem_x509_certificate(file.read())
    assert expires_at_s == certificate.not_valid_after_utc.timestamp()


def test_node_warns_of_a_listener_without_tls(databases: Databases, tokens: TokensFile) -> None:
    url = databases.create()
    options = QUICK | {"http_host": "0.0.0.0", "tokens_file": str(tokens.path), "cluster_secret": CLUSTER_SECRET}
    with structlog.testing.capture_logs() as logged, running_node(url, **options):
        pass
    databases.drop(url)

    (event,) = [each for each in logged if each["event"] == "connection_not_encrypted"]
    assert (event["log_level"], event["setting"]) == ("warning", "MUSTER_HTTP_HOST")


@pytest.mark.parametrize("content", ["", "no certificate"])
def test_node_does_not_start_with_a_broken_certificate(database_url: str, tmp_path: Path, content: str) -> None:
    broken = tmp_path / "broken.pem"
    broken.write_text(content)

    with (
        pytest.raises(UserError, match=r"broken\.pem") as refused,
        running_node(database_url, tls_certificate_file=str(broken)),
    ):
        pass
    assert refused.value.exit_code == 2


# -- client certificates ------------------------------------------------------------------------------------


def test_certificate_is_mapped_to_an_entry_of_the_tokens_file(guarded: Node, authority: Authority) -> None:
    with closing(Client(guarded.url, authority.trusted(authority.issue("billing")))) as client:
        member = client.group(fresh_id("billing-")).stable()
        refused = client.call("GET", f"/v1/groups/{fresh_id('other-')}")

    assert member.post("heartbeat").status == 200
    assert (refused.status, refused.code) == (403, "GROUP_AUTHORIZATION_FAILED")


def test_changes_name_the_actor_of_the_certificate(guarded: Node, authority: Authority) -> None:
    ops = authority.issue("laptop", names=[x509.UniformResourceIdentifier("spiffe://example.org/ops")])
    with closing(Client(guarded.url, authority.trusted(ops))) as client:
        client.ok("PUT", "/v1/topics/orders", {"partitions": 3})
        (change,) = client.ok("GET", "/v1/changes")["changes"]

    assert change["actor"] == "ops (ada)"
    assert change["token_id"]


def test_token_counts_more_than_the_certificate(guarded: Node, authority: Authority) -> None:
    with closing(Client(guarded.url, authority.trusted(authority.issue("billing")))) as client:
        known = client.call("GET", "/v1/changes", headers={"Authorization": "Bearer ada's"})
        unknown = client.call("GET", "/v1/groups/billing-1", headers={"Authorization": "Bearer unknown"})

    assert known.status == 200
    assert unknown.status == 401


def test_certificate_without_an_entry_is_unauthenticated(guarded: Node, authority: Authority) -> None:
    with closing(Client(guarded.url, authority.trusted(authority.issue("stray")))) as client:
        refused = client.call("GET", "/v1/groups")
        health = client.send("GET", "/healthz")
    with closing(Client(guarded.url, authority.trusted())) as anonymous:
        without = anonymous.call("GET", "/v1/groups")

    assert (refused.status, without.status, health.status) == (401, 401, 200)
    assert "CN=stray" in refused.json["detail"]


def test_entry_that_is_removed_ends_the_rights_of_open_connections(
    guarded: Node, authority: Authority, tokens: TokensFile
) -> None:
    with closing(Client(guarded.url, authority.trusted(authority.issue("billing"))).connect()) as connection:

        def status() -> int:
            connection.request("GET", "/v1/groups/billing-1/offsets")
            response = connection.getresponse()
            response.read()
            return response.status

        assert status() == 200
        tokens.write(ADA)
        poll_until(lambda: status() == 401)


def test_certificate_that_expires_ends_the_rights_of_its_open_connections(guarded: Node, authority: Authority) -> None:
    expiring = authority.trusted(authority.issue("billing", days=SOON_S / 86_400, file="expiring.pem"))
    with closing(Client(guarded.url, expiring).connect()) as connection:

        def answer() -> tuple[int, bytes]:
            connection.request("GET", "/v1/groups/billing-1/offsets")
            response = connection.getresponse()
            return response.status, response.read()

        assert answer()[0] == 200
        poll_until(lambda: answer()[0] == 401)
        assert b"the certificate has expired" in answer()[1]


@pytest.mark.parametrize("kind", ["another authority", "expired"])
def test_certificate_that_is_not_valid_ends_the_handshake(
    guarded: Node, authority: Authority, tmp_path: Path, kind: str
) -> None:
    issuer = authority if kind == "expired" else Authority(tmp_path, "other")
    presented = issuer.issue("billing", days=-1 if kind == "expired" else 90, file="presented.pem")
    client = Client(guarded.url, authority.trusted(presented))

    with pytest.raises((ssl.SSLError, ConnectionError, http.client.RemoteDisconnected)):
        client.call("GET", "/healthz")


# -- nodes --------------------------------------------------------------------------------------------------


class SecurePair(Pair):
    """Two nodes with TLS."""

    def __init__(self, nodes: list[Node], context: ssl.SSLContext) -> None:
        self.nodes = nodes
        self.clients = [Client(node.url, context) for node in nodes]


@pytest.fixture(params=["requested", "required"])
def pair(
    request: pytest.FixtureRequest, databases: Databases, authority: Authority, tokens: TokensFile
) -> Iterator[SecurePair]:
    url = databases.create()
    options = OPTIONS | {
        "tls_certificate_file": str(authority.issue("node")),
        "tls_ca_file": str(authority.path),
        "tls_client_ca_file": str(authority.path),
        "tls_client_auth": request.param,
        "tokens_file": str(tokens.path),
    }
    ops = authority.issue("laptop", names=[x509.UniformResourceIdentifier("spiffe://example.org/ops")])
    with ExitStack() as stack:
        nodes = [stack.enter_context(running_node(url, **options)) for _ in range(2)]
        pair = SecurePair(nodes, authority.trusted(ops))
        pair.balance_shards()
        yield pair
        for client in pair.clients:
            client.close()
    databases.drop(url)


def test_request_is_forwarded_over_tls_as_its_client(pair: SecurePair) -> None:
    group = pair.elsewhere()
    member = group.stable()

    assert member.post("heartbeat").status == 200
    assert group.describe()["coordinator"]["url"] == pair.nodes[1].url
    assert pair.nodes[1].url.startswith("https://")
    assert group.post("rebalance", {"reason": "a test"}).status == 204
    changes = pair.clients[0].ok("GET", "/v1/changes")["changes"]
    assert {change["actor"] for change in changes} == {"ops (ada)"}


def test_node_that_is_not_trusted_gets_no_request(databases: Databases, authority: Authority, tmp_path: Path) -> None:
    url = databases.create()
    other = Authority(tmp_path, "other")
    options = OPTIONS | {"tls_ca_file": str(authority.path)}
    with ExitStack() as stack:
        nodes = [
            stack.enter_context(running_node(url, **options, tls_certificate_file=str(issuer.issue("node"))))
            for issuer in (authority, other)
        ]
        both = ssl.create_default_context(cafile=authority.path)
        both.load_verify_locations(other.path)
        pair = SecurePair(nodes, both)
        pair.balance_shards()
        group = pair.elsewhere()
        with structlog.testing.capture_logs() as logged:
            answer = group.post("heartbeat", {"generation": 1, "member_id": "m"})
        for client in pair.clients:
            client.close()
    databases.drop(url)

    assert (answer.status, answer.code) == (503, "COORDINATOR_NOT_AVAILABLE"), json.dumps(answer.json)
    (event,) = [each for each in logged if each["event"] == "request_forward_failed"]
    assert "CERTIFICATE_VERIFY_FAILED" in event["reason"]
