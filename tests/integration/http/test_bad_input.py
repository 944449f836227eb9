"""Invalid input gets an error in one sentence, and leaves no row and no traceback behind."""

import gzip
import json
import re
import socket
from base64 import b64encode
from collections.abc import Iterator

import pytest
import structlog

from coordinator_core.protocol.consumer_protocol import (
    Assignment,
    Subscription,
    TopicPartitions,
    write_assignment,
    write_subscription,
)
from tests.support.http_client import AS_JSON, OPERATOR, Answer, Client, Group, Json, join_body, position
from tests.support.waiting import PATIENCE_S, poll_until

DEEP = b"[" * 200_000
COMMIT = {"generation": -1, "member_id": "", "offsets": [position(1)]}
HEARTBEAT = {"generation": 1, "member_id": "m"}
PUT_TOPIC = {"partitions": 3}


@pytest.fixture(autouse=True)
def _no_traceback_in_the_log(client: Client) -> Iterator[None]:
    """Let no test of this file leave an error in the log, or a node that is not ready."""
    with structlog.testing.capture_logs() as events:
        yield
    assert [each for each in events if each["log_level"] in {"error", "critical"} or "exc_info" in each] == []
    poll_until(lambda: client.call("GET", "/readyz").status == 200)


def refuse(answer: Answer, *named: str, status: int = 400) -> None:
    """Check that the response is an error whose sentence names the problem."""
    assert (answer.status, answer.code, answer.json["action"]) == (status, "INVALID_REQUEST", "fix"), answer
    assert len(answer.json["detail"]) <= 500
    for name in named:
        assert name in answer.json["detail"], answer


# -- fields ---------------------------------------------------------------------------------------------


def with_(body: Json, **changes: Json) -> Json:
    return {**body, **changes}


def without(body: Json, field: str) -> Json:
    return {name: value for name, value in body.items() if name != field}


def offering(metadata: Json) -> Json:
    return join_body(protocols=[{"name": "range", "metadata": metadata}])


def syncing(assignment: Json) -> Json:
    return {**HEARTBEAT, "assignments": [{"member_id": "m", "assignment": assignment}]}


BAD_FIELDS = [
    ("join", without(join_body(), "client_id"), "client_id"),
    ("join", without(join_body(), "session_timeout_ms"), "session_timeout_ms"),
    ("join", without(join_body(), "protocols"), "protocols"),
    ("join", join_body(sesion_timeout_ms=1), "sesion_timeout_ms"),
    ("join", join_body(client_id="x" * 201), "client_id"),
    ("join", join_body(client_id=7), "client_id"),
    ("join", join_body(client_id=None), "client_id"),
    ("join", join_body(group_instance_id="x" * 250), "group_instance_id"),
    ("join", join_body(group_instance_id=""), "group_instance_id"),
    ("join", join_body(member_id="x" * 287), "member_id"),
    ("join", join_body(session_timeout_ms="10000"), "session_timeout_ms"),
    ("join", join_body(session_timeout_ms=1.5), "session_timeout_ms"),
    ("join", join_body(session_timeout_ms=True), "session_timeout_ms"),
    ("join", join_body(session_timeout_ms=10**30), "session_timeout_ms"),
    ("join", join_body(rebalance_timeout_ms=-1), "rebalance_timeout_ms"),
    ("join", join_body(rebalance_timeout_ms=2**31), "rebalance_timeout_ms"),
    ("join", join_body(max_wait_ms=-1), "max_wait_ms"),
    ("join", join_body(reason="x" * 1_001), "reason"),
    ("join", join_body(require_known_member_id="true"), "require_known_member_id"),
    ("join", join_body(protocols={}), "protocols"),
    ("join", join_body(protocols=[{"name": f"p{n}"} for n in range(101)]), "protocols"),
    ("join", join_body(protocols=[{"name": "range"}, {"name": "range"}]), "protocols[1].name"),
    ("join", join_body(protocols=[{"metadata": ""}]), "protocols"),
    ("join", offering(7), "protocols"),
    ("join", offering("not base64"), "protocols[0].metadata"),
    ("join", offering("AAE"), "protocols[0].metadata"),
    ("join", offering("é"), "protocols[0].metadata"),
    ("join", offering({}), "topics"),
    ("join", offering({"topics": [""]}), "topics"),
    ("join", offering({"topics": ["x" * 250]}), "topics"),
    ("join", offering({"topics": ["a"], "subject": 1}), "subject"),
    ("join", offering({"topics": ["a"], "user_data": "?"}), "protocols[0].metadata.user_data"),
    ("join", offering({"topics": ["a"], "rack": "x" * 256}), "protocols[0].metadata.rack"),
    (
        "join",
        offering({"topics": ["a"], "owned_partitions": [{"topic": "a", "partitions": [-1]}]}),
        "protocols[0].metadata.owned_partitions[0].partitions[0]",
    ),
    ("join", offering(b64encode(write_subscription(Subscription(("a\0",)))).decode()), "protocols[0].metadata"),
    ("join", join_body(protocol_type="connect"), "protocols[0].metadata"),
    ("sync", without(syncing(""), "assignments"), "assignments"),
    ("sync", syncing("?"), "assignments[0].assignment"),
    ("sync", syncing({"partitions": [{"topic": "a", "partitions": [2**31]}]}), "partitions"),
    (
        "sync",
        syncing(b64encode(write_assignment(Assignment((TopicPartitions("a\0", (0,)),)))).decode()),
        "assignments[0].assignment",
    ),
    (
        "sync",
        syncing(b64encode(write_assignment(Assignment((TopicPartitions("a", (3, -5)),)))).decode()),
        "assignments[0].assignment: names a partition below 0",
    ),
    (
        "sync",
        syncing(b64encode(write_assignment(Assignment((TopicPartitions("", (0,)),)))).decode()),
        "assignments[0].assignment: names a topic that is empty",
    ),
    ("heartbeat", with_(HEARTBEAT, generation=-2), "generation"),
    ("heartbeat", with_(HEARTBEAT, generation=2**31), "generation"),
    ("heartbeat", with_(HEARTBEAT, generation=None), "generation"),
    ("heartbeat", without(HEARTBEAT, "member_id"), "member_id"),
    ("leave", {"members": [{"member_id": 1}]}, "member_id"),
    ("leave", {"members": [{}]}, "member_id"),
    ("leave", {"members": [{"member_id": "m"}] * 10_001}, "members"),
    ("offsets", with_(COMMIT, offsets=[position(-1)]), "offset"),
    ("offsets", with_(COMMIT, offsets=[position(2**63)]), "offset"),
    ("offsets", with_(COMMIT, offsets=[position(1, partition=-1)]), "partition"),
    ("offsets", with_(COMMIT, offsets=[position(1, partition=2**31)]), "partition"),
    ("offsets", with_(COMMIT, offsets=[position(1, topic="")]), "topic"),
    ("offsets", with_(COMMIT, offsets=[position(1, topic="x" * 250)]), "topic"),
    ("offsets", with_(COMMIT, offsets=[position(1, leader_epoch=-2)]), "leader_epoch"),
    ("offsets", with_(COMMIT, offsets=[position(1, log_end_offset=-1)]), "log_end_offset"),
    ("offsets", with_(COMMIT, offsets=[position(1, metadata=None)]), "metadata"),
    ("offsets", with_(COMMIT, offsets=[position(1)] * 10_001), "10001 partitions"),
    ("offsets", with_(COMMIT, retention_time_ms=-2), "retention_time_ms"),
    ("offsets/query", {"partitions": [{"topic": "a", "partitions": list(range(10_001))}]}, "10001 partitions"),
    ("offsets/query", {"partitions": [{"topic": "a"}]}, "partitions"),
    ("rebalance", {"reason": ""}, "reason"),
]


@pytest.mark.parametrize(("action", "body", "named"), BAD_FIELDS)
def test_invalid_field_is_named(group: Group, action: str, body: Json, named: str) -> None:
    refuse(group.post(action, body), named)

    assert group.client.call("GET", group.path).code == "GROUP_ID_NOT_FOUND"


@pytest.mark.parametrize(
    ("method", "path", "body", "named"),
    [
        ("PUT", "/v1/topics/t", {"partitions": "3"}, "partitions"),
        ("PUT", "/v1/topics/t", {"partitions": 0}, "partitions"),
        ("PUT", "/v1/topics/t", {"partitions": 100_001}, "partitions: expected int <= 100000"),
        ("PUT", "/v1/topics/t", {"partitions": 3, "log_start_offset": -1}, "log_start_offset"),
        ("PUT", "/v1/topics/t", {"partition": 3}, "partition"),
        ("PUT", f"/v1/topics/{'x' * 250}", PUT_TOPIC, "250 characters"),
        ("PUT", "/v1/topics/a%00", PUT_TOPIC, "NUL"),
        ("PUT", "/v1/topics/%FF", PUT_TOPIC, "UTF-8"),
        ("PUT", "/v1/config", {"values": {"group_max_size": 1.5}, "reason": "x"}, "values"),
        ("PUT", "/v1/config", {"values": {"group_max_size": [1]}, "reason": "x"}, "values"),
        ("PUT", "/v1/config", {"values": {"group_max_size": 10**40}, "reason": "x"}, "group_max_size"),
        ("PUT", "/v1/config", {"values": {}}, "reason"),
        ("PUT", "/v1/config", {"values": {}, "reason": "x" * 1_001}, "reason"),
        ("GET", "/v1/groups?limit=0", None, "limit"),
        ("GET", "/v1/groups?limit=1001", None, "limit"),
        ("GET", "/v1/groups?limit=ten", None, "limit"),
        ("GET", "/v1/groups?limits=10", None, "limits"),
        ("GET", "/v1/groups?prefix=%00", None, "NUL"),
        ("GET", "/v1/groups?prefix=%FF", None, "UTF-8"),
        ("GET", "/v1/groups?cursor=*", None, "cursor"),
        ("GET", "/v1/groups?cursor=_w", None, "cursor"),
        ("GET", "/v1/groups?cursor=AA", None, "cursor"),
        ("GET", "/v1/topics?topic=a", None, "topic"),
        ("DELETE", "/v1/groups/g/offsets", None, "topic"),
        ("DELETE", "/v1/groups/g/offsets?topic=", None, "topic"),
        ("DELETE", "/v1/groups/g/offsets?topic=a&partition=-1", None, "partition"),
        ("DELETE", "/v1/groups/g/offsets?topic=a&partition=x", None, "partition"),
        ("DELETE", "/v1/groups/g/offsets?topic=a&partition=null", None, "partition: null"),
        ("DELETE", "/v1/groups/g/offsets?topic=a&partition=NULL&dry_run=true", None, "partition: null"),
        ("DELETE", "/v1/groups/g/offsets?topics=a", None, "topic"),
        ("DELETE", "/v1/groups/g/offsets?topic=a&partition=0&partition=1", None, "partition more than once"),
        ("DELETE", "/v1/groups/g/offsets?topic=a&topic=b", None, "topic more than once"),
        ("DELETE", "/v1/groups/g?reason=a&reason=", None, "reason more than once"),
        ("GET", "/v1/groups?prefix=a&prefix=a", None, "prefix more than once"),
        ("POST", "/v1/groups/g/heartbeat?dry_run=true", HEARTBEAT, "query"),
        ("POST", "/v1/maintenance/runs/6b0f3d4e-28f0-4a34-9f5e-0a4f1f2f3f4f/apply", {"reason": 1}, "reason"),
    ],
)
def test_invalid_operator_request_is_reported(client: Client, method: str, path: str, body: Json, named: str) -> None:
    refuse(client.call(method, path, body), named)


@pytest.mark.parametrize(
    ("headers", "named"),
    [
        ({"X-Muster-Actor": "x" * 201}, "X-Muster-Actor"),
        ({"X-Muster-Actor": "\udcff"}, "X-Muster-Actor"),
        ({"X-Muster-Actor": ""}, "X-Muster-Actor"),
        ({"Idempotency-Key": "7"}, "Idempotency-Key"),
    ],
)
def test_invalid_header_is_named(client: Client, headers: dict[str, str], named: str) -> None:
    sent = {name: value.encode(errors="surrogateescape") for name, value in {**OPERATOR, **AS_JSON, **headers}.items()}

    refuse(client.send("PUT", "/v1/topics/t", json.dumps(PUT_TOPIC).encode(), sent), named)  # type: ignore[arg-type]  # bytes are sent as they are


@pytest.mark.parametrize(("method", "action"), [("PUT", "config"), ("POST", "rebalance"), ("POST", "heartbeat")])
def test_an_absent_body_is_named(group: Group, method: str, action: str) -> None:
    answer = group.client.call(method, f"{group.path}/{action}")

    assert (answer.status, answer.json["detail"]) == (400, "the body is empty")


@pytest.mark.parametrize("path", ["groups/g/offsets?topic=a&dry_run=true", "topics/t/log-ends?reason=x&dry_run=true"])
@pytest.mark.parametrize("headers", [{"X-Muster-Actor": "x" * 201}, {**OPERATOR, "Idempotency-Key": "7"}])
def test_dry_run_checks_the_headers_of_the_change(client: Client, path: str, headers: dict[str, str]) -> None:
    refuse(client.send("DELETE", f"/v1/{path}", headers=headers), list(headers)[-1])


@pytest.mark.parametrize("path", ["changes?group_id=null", "reports/timeouts?group_id=null", "groups?prefix=null"])
def test_null_is_an_ordinary_name(client: Client, path: str) -> None:
    client.ok("GET", f"/v1/{path}")


def test_session_timeout_out_of_bounds_has_its_own_error(group: Group) -> None:
    for timeout_ms in (-5, 0, 5_999, 1_800_001, 2**40):
        answer = group.post("join", join_body(session_timeout_ms=timeout_ms))

        assert (answer.status, answer.code, answer.json["kafka_code"]) == (400, "INVALID_SESSION_TIMEOUT", 26)


# -- text -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "named"),
    [
        (b"", "empty"),
        (b"{", "JSON"),
        (b"nonsense", "JSON"),
        (b'{"generation": NaN, "member_id": "m"}', "JSON"),
        (b'{"generation": 1, "member_id": "m"} and more', "JSON"),
        (b"null", "object"),
        (b"[]", "object"),
        (b'"text"', "object"),
        (b'\xef\xbb\xbf{"generation": 1, "member_id": "m"}', "JSON"),
        (b'{"generation": 1, "member_id": "\xff"}', "UTF-8"),
        (b'{"generation": 1, "member_id": "\xed\xa0\x80"}', "UTF-8"),
        (b'{"generation": 1, "member_id": "a\\u0000b"}', "member_id: holds NUL"),
        (b'{"generation": 1, "member_id": "\x00"}', "JSON"),
        (b'{"generation": 1, "member_id": "\\ud800"}', "member_id: holds an unpaired surrogate"),
        (b'{"generation": 1, "member_id": "\\udc00\\ud800"}', "member_id: holds an unpaired surrogate"),
        (b'{"generation": 1, "member_id": "m", "\\u0000": 1}', "field's name"),
        (b'{"generation": 1, "member_id": "m", "\\ud800": 1}', "field's name"),
        (b'{"generation": 1, "member_id": "m", "' + b"x" * 100_000 + b'": 1}', "unknown field"),
        (DEEP, "object"),
        (b'{"generation": 1, "member_id": ' + DEEP, "member_id"),
        (b'{"more": ' + DEEP + b', "member_id": "\\u0000"}', "NUL"),
        (b'{"generation": ' + b"9" * 10_000 + b', "member_id": "m"}', "generation"),
    ],
)
def test_invalid_text_is_reported(group: Group, body: bytes, named: str) -> None:
    refuse(group.client.send("POST", f"{group.path}/heartbeat", body, AS_JSON), named)


def test_field_with_nul_is_named_at_any_depth(group: Group) -> None:
    body = with_(COMMIT, offsets=[position(1), position(2, metadata="a\0b")])

    refuse(group.post("offsets", body), "offsets[1].metadata: holds NUL")


def test_large_body_with_nul_is_refused_without_the_field_which_would_need_decoding(group: Group) -> None:
    quoted = [position(each, metadata="\\u0000") for each in range(1_000)]
    assert group.post("offsets", with_(COMMIT, offsets=quoted)).status == 200

    for metadata, reason in (("\\\0", "a text holds NUL"), ("\ud800", "JSON")):
        body = with_(COMMIT, offsets=[*quoted, position(7, metadata=metadata)])
        refuse(group.post("offsets", body), reason)


def test_escaped_backslash_before_u0000_is_text(group: Group) -> None:
    answer = group.post("offsets", with_(COMMIT, offsets=[position(2, metadata="\\u0000")]))

    assert answer.json["offsets"][0]["code"] == "NONE"


@pytest.mark.parametrize("text", ["%ED%A0%80", "%00", "%F4%90%80%80", "x" * 10_000])
@pytest.mark.parametrize(
    "path",
    [
        "groups?prefix={}",
        "groups?cursor={}",
        "groups/{}",
        "groups/{}/offsets",
        "groups/g/offsets?topic={}",
        "groups/g/rebalances/{}/members",
        "topics/{}",
        "overview/groups?q={}",
        "changes?actor={}",
        "changes/{}",
        "maintenance/runs/{}",
        "reports/timeouts?group_id={}",
    ],
)
def test_text_that_postgres_cannot_hold_is_no_error_of_the_node(client: Client, path: str, text: str) -> None:
    answer = client.call("GET", f"/v1/{path.format(text)}")
    assert answer.status < 500, answer


# -- kind and size ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "application/jsonp", "multipart/form-data", "", None]
)
def test_only_json_is_read(group: Group, kind: str | None) -> None:
    headers = {} if kind is None else {"Content-Type": kind}
    answer = group.client.send("POST", f"{group.path}/heartbeat", b"{}", headers)

    refuse(answer, "application/json", status=415)


@pytest.mark.parametrize("kind", ["application/json; charset=utf-8", "Application/JSON"])
def test_json_content_type_is_case_insensitive(group: Group, kind: str) -> None:
    body = json.dumps(COMMIT).encode()

    answer = group.client.send("POST", f"{group.path}/offsets", body, {"Content-Type": kind})

    assert answer.status == 200


def test_body_of_ten_megabytes_is_rejected(group: Group) -> None:
    refuse(group.post("join", offering("A" * 10_000_000)), "8388608 bytes", status=413)


def test_metadata_beyond_the_limit_is_refused_and_no_group_is_made(group: Group) -> None:
    refuse(group.post("join", offering("A" * 400_000)), "member_metadata_max_bytes", "262144")
    assert group.client.call("GET", group.path).status == 404


def test_body_without_content_length_is_measured(client: Client) -> None:
    chunks = (b"x" * 1_000_000 for _ in range(10))

    answer = client.send("POST", "/v1/groups/g/heartbeat", chunks)  # type: ignore[arg-type]  # http.client sends chunks

    refuse(answer, "8388608 bytes", status=413)


def test_million_partitions_are_rejected(group: Group) -> None:
    answer = group.post("offsets/query", {"partitions": [{"topic": "a", "partitions": [0] * 1_000_000}]})

    refuse(answer, "1000000 partitions")


@pytest.mark.parametrize("encoding", ["gzip", "br", "deflate", "GZIP, identity"])
def test_a_compressed_body_is_not_read(group: Group, encoding: str) -> None:
    body = gzip.compress(json.dumps(HEARTBEAT).encode())

    answer = group.client.send("POST", f"{group.path}/heartbeat", body, {**AS_JSON, "Content-Encoding": encoding})

    refuse(answer, "compressed", status=415)


def test_body_with_identity_encoding_is_read(group: Group) -> None:
    body = json.dumps(COMMIT).encode()

    assert (
        group.client.send(
            "POST", f"{group.path}/offsets", body, {"Content-Encoding": "Identity", "Content-Type": "application/json"}
        ).status
        == 200
    )


# -- HTTP itself ------------------------------------------------------------------------------------------


def exchange(client: Client, sent: bytes) -> bytes:
    """Send bytes on a new connection, and return everything received until it is closed."""
    host, _, port = client.address.partition(":")
    with socket.create_connection((host, int(port)), PATIENCE_S) as connection:
        connection.sendall(sent)
        return b"".join(iter(lambda: connection.recv(65_536), b""))


def request(line: bytes, *headers: bytes, body: bytes = b"") -> bytes:
    return b"\r\n".join([line, b"Host: localhost", b"Connection: close", *headers, b"", body])


BEAT = b"POST /v1/groups/g/heartbeat HTTP/1.1"
CHUNKED = b"Transfer-Encoding: chunked"
JSON_BODY = b"Content-Type: application/json"
IN_CHUNKS = b"23\r\n%b\r\n0\r\n\r\n" % json.dumps(HEARTBEAT).encode()


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (request(BEAT, b"Content-Length: -5", body=b"12345"), 400),
        (request(BEAT, b"Content-Length: five", body=b"12345"), 400),
        (request(BEAT, b"Content-Length: +5", body=b"12345"), 400),
        (request(BEAT, b"Content-Length:", body=b""), 400),
        (request(BEAT, b"Content-Length: 1" + b"0" * 30), 400),
        (request(BEAT, b"Content-Length: 9223372036854775808"), 413),
        (request(BEAT, b"Content-Length: 5", b"Content-Length: 6", body=b"123456"), 400),
        (request(BEAT, CHUNKED, b"Content-Length: 5", body=b"0\r\n\r\n"), 400),
        (request(BEAT, CHUNKED, body=b"zz\r\nabc\r\n0\r\n\r\n"), 400),
        (request(BEAT, CHUNKED, body=b"0\r\n\r\n"), 400),
        (request(BEAT, b"Transfer-Encoding: x, chunked", JSON_BODY, body=IN_CHUNKS), 400),
        (request(BEAT, b"Transfer-Encoding: x", CHUNKED, JSON_BODY, body=IN_CHUNKS), 400),
        (request(BEAT), 400),
        (request(BEAT, b"X-Muster-Actor: a\0b", b"Content-Length: 0"), 400),
        (request(BEAT, b"no colon", b"Content-Length: 0"), 400),
        (request(BEAT, b"two words: x", b"Content-Length: 0"), 400),
        (request(b"PUT /v1/groups/g/heartbeat HTTP/1.1", b"Content-Length: 0"), 405),
        (request(b"GET /v1/groups/g/heartbeat HTTP/1.1"), 405),
        (request(b"TRACE /v1/groups HTTP/1.1"), 405),
        (request(b"CONNECT h:1 HTTP/1.1"), 400),
        (request(b"FETCH /v1/groups HTTP/1.1"), 400),
        (request(b"get /v1/groups HTTP/1.1"), 400),
        (request(b"OPTIONS * HTTP/1.1"), 404),
        (request(b"GET  HTTP/1.1"), 400),
        (request(b"GET /v1/groups HTTP/9.9"), 400),
        (request(b"GET /v1/groups?prefix=\xff HTTP/1.1"), 400),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
        (bytes.fromhex("16030100c8010000c40303") + bytes(50), 400),
        (BEAT + b"\r\nX: " + b"y" * 66_000, 400),
    ],
)
def test_invalid_http_is_answered_with_a_problem_document(client: Client, sent: bytes, status: int) -> None:
    head, _, body = exchange(client, sent).partition(b"\r\n\r\n")

    assert head.startswith(b"HTTP/1.1 %d " % status), head
    assert b"content-type: application/problem+json" in head
    assert json.loads(body)["code"] == "INVALID_REQUEST"


@pytest.mark.parametrize(
    ("path", "status"), [(b"/", 200), (b"/readyz", 200), (b"/v1/nothing", 404), (b"/v1/groups/g/leave", 405)]
)
def test_head_is_answered_as_get_without_the_body(client: Client, path: bytes, status: int) -> None:
    lines = (b"%b %b HTTP/1.1" % (method, path) for method in (b"GET", b"HEAD"))
    got, head = (re.sub(rb"date: .*\r\n", b"", exchange(client, request(line, b"X-Request-Id: r"))) for line in lines)

    assert head.startswith(b"HTTP/1.1 %d " % status)
    assert head == got.partition(b"\r\n\r\n")[0] + b"\r\n\r\n"


def test_too_long_path_is_rejected(client: Client) -> None:
    refuse(client.call("GET", "/v1/groups?prefix=" + "x" * 70_000), "not HTTP")
