"""Host and origin checks: DNS rebinding and cross-site requests are refused."""

import socket
from collections.abc import Iterator
from contextlib import closing

import pytest

from api.http.hosts import AllowedHosts
from api.http.problems import CrossOriginRequest, MisdirectedRequest
from tests.support.databases import Databases
from tests.support.http_client import AS_JSON, OPERATOR, Answer, Client, Group, Json, fresh_id, position
from tests.support.nodes import CLUSTER_SECRET, running_node
from tests.support.waiting import PATIENCE_S

COMMIT = {"generation": -1, "member_id": "", "offsets": [position(1)]}
EVIL = "http://evil.example"
NAMED = "console.example.org"


@pytest.fixture(scope="module")
def named(databases: Databases) -> Iterator[Client]:
    """Serve a node with allowed hosts besides loopback."""
    url = databases.create()
    options: dict[str, int | str] = {
        "allowed_hosts": f"{NAMED}, *.svc.cluster.local",
        "group_initial_rebalance_delay_ms": 0,
    }
    with running_node(url, **options) as node, closing(Client(node.url)) as client:
        yield client
    databases.drop(url)


def exchange(client: Client, sent: bytes) -> bytes:
    """Send bytes on a new connection, and return everything received until it is closed."""
    host, _, port = client.address.partition(":")
    with socket.create_connection((host, int(port)), PATIENCE_S) as connection:
        connection.sendall(sent)
        return b"".join(iter(lambda: connection.recv(65_536), b""))


def status_of(client: Client, *lines: str) -> int:
    head = "\r\n".join([*lines, "Connection: close", "", ""])
    return int(exchange(client, head.encode()).split(b" ", 2)[1])


# -- hosts ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host", [None, "localhost", "LocalHost:9000", "localhost.", "127.0.0.1", "127.9.9.9:1", "[::1]:80"]
)
def test_loopback_hosts_are_answered(client: Client, host: str | None) -> None:
    assert client.send("GET", "/healthz", headers={} if host is None else {"Host": host}).status == 200


@pytest.mark.parametrize(
    "host",
    [
        "rebound.example",
        "rebound.example:8080",
        "localhost.example",
        "127.0.0.1.example",
        "localhost..",
        "192.0.2.7",
        "0.0.0.0",
        "[2001:db8::1]",
        "2130706433",
        "localhost:8080:80",
        "evil@localhost",
        "localhost, evil",
        "::1",
        "",
    ],
)
@pytest.mark.parametrize("path", ["/", "/v1/groups", "/healthz", "/nope"])
def test_a_foreign_host_is_refused_with_the_setting_that_allows_it(client: Client, host: str, path: str) -> None:
    answer = client.send("GET", path, headers={"Host": host})

    assert (answer.status, answer.code, answer.json["action"]) == (421, "INVALID_REQUEST", "fix")
    assert "MUSTER_ALLOWED_HOSTS" in answer.json["detail"]


def test_dns_rebinding_is_rejected(client: Client, group: Group) -> None:
    rebound = {
        "Host": "rebound.example",
        "Origin": "http://rebound.example",
        "Sec-Fetch-Site": "same-origin",
        **AS_JSON,
    }

    answer = client.send("POST", f"{group.path}/offsets", client.encoded(COMMIT), rebound)

    assert answer.status == 421
    assert client.call("GET", group.path).status == 404


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        (["GET /healthz HTTP/1.1"], 400),
        (["GET /healthz HTTP/1.1", "Host: localhost", "Host: localhost"], 400),
        (["GET /healthz HTTP/1.1", "Host: localhost", "Host: evil.example"], 400),
        (["GET /healthz HTTP/1.1", "Host: localhost", "X-A: 1", "X-A: 2"], 200),
        (["GET /healthz HTTP/1.0"], 200),
        (["GET /healthz HTTP/1.0", "Host: evil.example"], 421),
        (["GET http://evil.example/healthz HTTP/1.1", "Host: localhost"], 421),
        (["GET http://localhost@evil.example/healthz HTTP/1.1", "Host: localhost"], 421),
        (["GET http://[::1]:8080/healthz HTTP/1.1", "Host: [::1]:8080"], 200),
        (["GET HTTP://LOCALHOST:99/healthz HTTP/1.1", "Host: evil.example"], 200),
    ],
)
def test_host_of_the_request_target_takes_precedence(client: Client, lines: list[str], status: int) -> None:
    assert status_of(client, *lines) == status


@pytest.mark.parametrize(
    ("host", "is_allowed"),
    [
        (NAMED, True),
        (f"{NAMED.upper()}.:8443", True),
        (f"a.{NAMED}", False),
        ("muster.kafka.svc.cluster.local", True),
        ("svc.cluster.local", False),
        ("evilsvc.cluster.local", False),
    ],
)
def test_hosts_can_be_named(named: Client, host: str, is_allowed: bool) -> None:
    assert named.send("GET", "/healthz", headers={"Host": host}).status == (200 if is_allowed else 421)


@pytest.mark.parametrize(
    ("listen_host", "host", "is_allowed"),
    [
        ("0.0.0.0", b"10.1.2.3:8080", True),
        ("::", b"[2001:db8::1]:8080", True),
        ("10.1.2.3", b"127.0.0.1", True),
        ("0.0.0.0", b"muster-0.example.org", True),
        ("0.0.0.0", b"muster-0.example.org.", True),
        ("0.0.0.0", b"rebound.example", False),
        ("0.0.0.0", b"0x7f.1", False),
        ("127.0.0.1", b"10.1.2.3", False),
        ("localhost", b"10.1.2.3", False),
    ],
)
def test_node_beyond_loopback_accepts_any_address_and_its_advertised_name(
    listen_host: str, host: bytes, is_allowed: bool
) -> None:
    hosts = AllowedHosts(listen_host, "https://muster-0.example.org:8443")
    scope: Json = {"method": "GET", "http_version": "1.1", "headers": [(b"host", host)]}

    if is_allowed:
        hosts.check(scope, {b"host": host})
    else:
        with pytest.raises(MisdirectedRequest):
            hosts.check(scope, {b"host": host})


# -- origins ----------------------------------------------------------------------------------------------

FROM_ELSEWHERE = [
    {"Origin": EVIL},
    {"Origin": "null"},
    {"Origin": ""},
    {"Origin": "file://"},
    {"Origin": "http://localhost:3000"},
    {"Origin": "http://127.0.0.1"},
    {"Origin": "chrome-extension://abcdefgh"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
    {"Sec-Fetch-Site": "anything"},
    {"Origin": EVIL, "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"},
    {"Origin": EVIL, "Sec-Fetch-Site": "same-origin"},
]


@pytest.mark.parametrize("headers", FROM_ELSEWHERE)
def test_cross_site_write_is_rejected(client: Client, group: Group, headers: dict[str, str]) -> None:
    attempts = [
        client.send("POST", f"{group.path}/offsets", client.encoded(COMMIT), {**AS_JSON, **headers}),
        client.send("POST", f"/v1/maintenance/runs/{fresh_id()}/apply", None, {**OPERATOR, **headers}),
        client.send("DELETE", f"{group.path}?reason=x", None, {**OPERATOR, **headers}),
        client.send("PUT", "/v1/topics/t", client.encoded({"partitions": 3}), {**OPERATOR, **AS_JSON, **headers}),
    ]

    assert [(each.status, each.code) for each in attempts] == [(403, "INVALID_REQUEST")] * len(attempts)
    assert "MUSTER_ALLOWED_HOSTS" in attempts[0].json["detail"]
    assert client.call("GET", group.path).status == 404


@pytest.mark.parametrize("kind", ["text/plain;charset=UTF-8", "application/x-www-form-urlencoded", None])
def test_no_cors_post_without_origin_headers_is_refused(client: Client, group: Group, kind: str | None) -> None:
    headers = {} if kind is None else {"Content-Type": kind}
    answer = client.send("POST", f"{group.path}/offsets", client.encoded(COMMIT), headers)

    assert answer.status == 415
    assert client.call("GET", group.path).status == 404


def test_requests_of_the_console_are_accepted(client: Client, group: Group) -> None:
    for host in (client.address, client.address.replace("127.0.0.1", "LOCALHOST")):
        own = {"Host": host, "Origin": f"http://{host.lower()}", "Sec-Fetch-Site": "same-origin", **AS_JSON}
        assert client.send("POST", f"{group.path}/offsets", client.encoded(COMMIT), own).status == 200


def test_cross_origin_read_has_no_cors_headers(client: Client) -> None:
    answer = client.send("GET", "/v1/groups", headers={"Origin": EVIL, "Sec-Fetch-Site": "cross-site"})

    assert answer.status == 200
    assert not [name for name in answer.headers if name.startswith("access-control-")]
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"


def test_cors_preflight_is_refused(client: Client, group: Group) -> None:
    asked = {"Origin": EVIL, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type"}
    answer = client.send("OPTIONS", f"{group.path}/offsets", headers=asked)

    assert not [name for name in answer.headers if name.startswith("access-control-")]


@pytest.mark.parametrize("host", [None, NAMED])
def test_configured_proxy_origin_is_accepted(named: Client, host: str | None) -> None:
    group = named.group(fresh_id())
    headers = {"Origin": f"https://{NAMED}", **AS_JSON} | ({} if host is None else {"Host": host})

    assert named.send("POST", f"{group.path}/offsets", named.encoded(COMMIT), headers).status == 200
    headers["Origin"] = f"https://evil.{NAMED}"
    assert named.send("POST", f"{group.path}/offsets", named.encoded(COMMIT), headers).status == 403


def test_the_advertised_origin_passes_and_its_other_ports_do_not() -> None:
    hosts = AllowedHosts("127.0.0.1", "https://muster.example.org")

    def asked(origin: bytes) -> None:
        headers = {b"host": b"127.0.0.1:8080", b"origin": origin}
        scope: Json = {"method": "POST", "http_version": "1.1", "headers": [*headers.items()]}
        hosts.check(scope, headers)

    asked(b"https://muster.example.org")
    asked(b"https://muster.example.org:443")
    for other in (b"http://muster.example.org", b"https://muster.example.org:3000"):
        with pytest.raises(CrossOriginRequest):
            asked(other)


# -- headers of every response ----------------------------------------------------------------------------


def protects(answer: Answer) -> bool:
    """Return whether a response has every security header."""
    policy = answer.headers.get("content-security-policy", "")
    return (
        "default-src 'none'" in policy
        and "frame-ancestors 'none'" in policy
        and "unsafe" not in policy
        and answer.headers.get("x-content-type-options") == "nosniff"
        and answer.headers.get("referrer-policy") == "no-referrer"
    )


def test_every_answer_has_the_security_headers(client: Client, group: Group) -> None:
    member = group.stable()
    answers = {
        "heartbeat": member.post("heartbeat"),
        "refused": group.post("heartbeat", {"generation": 1, "member_id": "m"}),
        "list": client.call("GET", "/v1/groups"),
        "head": client.send("HEAD", "/healthz"),
        "last": client.send("GET", "/healthz", headers={"Connection": "close"}),
        "no such route": client.send("GET", "/nope"),
        "no such method": client.send("PUT", "/healthz"),
        "no such file": client.send("GET", "/console/x/y"),
        "foreign host": client.send("GET", "/", headers={"Host": "evil.example"}),
        "console": client.send("GET", "/"),
        "docs": client.send("GET", "/docs"),
        "openapi": client.send("GET", "/openapi.json"),
        "metrics": client.send("GET", "/metrics"),
        "change": client.call("PUT", f"/v1/topics/{fresh_id()}", {"partitions": 3}),
        "no content": client.call("DELETE", f"{group.path}/members/{member.member_id}?reason=x"),
    }

    assert [name for name, answer in answers.items() if not protects(answer)] == []


def test_answers_of_the_api_are_not_stored_by_caches(client: Client, group: Group) -> None:
    group.stable()
    paths = ["/v1/groups", group.path, f"{group.path}/offsets", "/v1/changes", "/metrics", "/readyz", "/v1/groups/none"]
    stored = [path for path in paths if client.send("GET", path).headers.get("cache-control") != "no-store"]
    assert stored == []


def test_malformed_http_response_has_the_security_headers(client: Client) -> None:
    head = exchange(client, b"HELLO muster\r\n\r\n").partition(b"\r\n\r\n")[0]

    assert b"\r\nx-content-type-options: nosniff\r\n" in head
    assert b"\r\ncontent-security-policy: default-src 'none'" in head


def test_unauthorized_response_has_the_security_headers(
    databases: Databases, tmp_path_factory: pytest.TempPathFactory
) -> None:
    tokens = tmp_path_factory.mktemp("tokens") / "tokens.json"
    tokens.write_text('{"tokens": []}')
    url = databases.create()
    with (
        running_node(url, tokens_file=str(tokens), cluster_secret=CLUSTER_SECRET) as node,
        closing(Client(node.url)) as client,
    ):
        answer = client.call("GET", "/v1/groups")
    databases.drop(url)

    assert answer.status == 401
    assert protects(answer)
