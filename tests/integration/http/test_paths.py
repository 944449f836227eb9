"""Group ids in paths: every valid id is decoded from the raw path."""

from base64 import urlsafe_b64encode
from urllib.parse import quote

import pytest

from api.http.paths import read_group_id, read_group_path
from coordinator_core.protocol.errors import InvalidGroupId
from tests.support.http_client import Client, position

COMMIT = {"generation": -1, "member_id": "", "offsets": [position(1)]}
LONGEST = "é" * 255
TOO_LONG = "x" * 256


def tilde(group_id: str) -> str:
    """Return the form that can name any group."""
    return "~" + urlsafe_b64encode(group_id.encode()).decode().rstrip("=")


@pytest.mark.parametrize(
    ("segment", "group_id"),
    [
        ("plain-1._", "plain-1._"),
        ("a%2Fb", "a/b"),
        ("a%2fb%3Fc%23d", "a/b?c#d"),
        ("100%25", "100%"),
        ("%2541", "%41"),
        ("a+b", "a+b"),
        ("a%20b", "a b"),
        ("offsets", "offsets"),
        ("...", "..."),
        ("%C3%A9%F0%9F%98%80", "é😀"),
        (quote(LONGEST), LONGEST),
        (tilde("~home"), "~home"),
        (tilde("."), "."),
        (tilde(".."), ".."),
        (tilde("a/b"), "a/b"),
        (tilde("a") + "==", "a"),
        (tilde("??>>") + "%3D%3D", "??>>"),
        ("%7E" + tilde("x")[1:], "x"),
    ],
)
def test_a_path_names_the_group(client: Client, segment: str, group_id: str) -> None:
    committed = client.call("POST", f"/v1/groups/{segment}/offsets", COMMIT)

    assert committed.status == 200, committed
    assert client.ok("GET", f"/v1/groups/{segment}")["group_id"] == group_id
    assert client.ok("GET", f"/v1/groups/{tilde(group_id)}")["group_id"] == group_id


@pytest.mark.parametrize(
    ("segment", "code"),
    [
        ("", "INVALID_GROUP_ID"),
        (".", "INVALID_GROUP_ID"),
        ("..", "INVALID_GROUP_ID"),
        ("%2E%2E", "INVALID_GROUP_ID"),
        (TOO_LONG, "INVALID_GROUP_ID"),
        (tilde(TOO_LONG), "INVALID_GROUP_ID"),
        ("~not*base64", "INVALID_GROUP_ID"),
        ("~A", "INVALID_GROUP_ID"),
        ("%00", "INVALID_REQUEST"),
        ("a%00b", "INVALID_REQUEST"),
        (tilde("a\0b"), "INVALID_REQUEST"),
        ("%FF", "INVALID_REQUEST"),
        ("%ED%A0%80", "INVALID_REQUEST"),
        ("~7aCA", "INVALID_REQUEST"),
    ],
)
@pytest.mark.parametrize(
    ("method", "action"),
    [
        ("GET", ""),
        ("DELETE", "?reason=x"),
        ("PATCH", ""),
        ("POST", "/join"),
        ("GET", "/join"),
        ("POST", "/sync"),
        ("POST", "/heartbeat"),
        ("POST", "/leave"),
        ("POST", "/offsets"),
        ("GET", "/offsets"),
        ("DELETE", "/offsets?topic=a"),
        ("POST", "/offsets/query"),
        ("GET", "/coordinator"),
        ("GET", "/config"),
        ("PUT", "/config"),
        ("POST", "/rebalance"),
        ("DELETE", "/members/m?reason=x"),
        ("GET", "/nothing-here"),
    ],
)
def test_invalid_group_id_is_reported(client: Client, method: str, action: str, segment: str, code: str) -> None:
    answer = client.call(method, f"/v1/groups/{segment}{action}", {})

    assert (answer.status, answer.code, answer.json["action"]) == (400, code, "fix")


@pytest.mark.parametrize(
    ("method", "action"),
    [
        ("POST", "join"),
        ("POST", "sync"),
        ("POST", "heartbeat"),
        ("POST", "leave"),
        ("DELETE", "offsets?topic=a"),
        ("PUT", "config"),
        ("POST", "rebalance"),
        ("DELETE", "members/m?reason=x"),
    ],
)
def test_empty_group_id_has_no_members_and_no_settings(client: Client, method: str, action: str) -> None:
    assert client.call(method, f"/v1/groups/~/{action}", {}).code == "INVALID_GROUP_ID"


@pytest.mark.parametrize("page", ["coordinator", "config", "lag", "lag/history", "diagnosis", "tuning", "transitions"])
def test_the_group_without_a_name_can_be_read(client: Client, page: str) -> None:
    client.ok("POST", "/v1/groups/~/offsets", {"generation": -1, "member_id": "", "offsets": [position(1)]})
    assert client.call("GET", f"/v1/groups/~/{page}").status == 200


@pytest.mark.parametrize(
    "path",
    ["/v1", "/v1/", "/nope", "/v1/groups/g/nope", "/v1/groups/g/", "/v1/groups/g//join", "/v1/groups/g/members/"],
)
def test_unknown_path_is_not_found(client: Client, path: str) -> None:
    answer = client.call("GET", path)

    assert (answer.status, answer.code, answer.json["title"]) == (404, "INVALID_REQUEST", "Not Found")


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", "/v1/groups/g/join", "POST"),
        ("PUT", "/v1/groups/g/offsets", "DELETE GET HEAD POST"),
        ("POST", "/v1/groups/g", "DELETE GET HEAD"),
        ("DELETE", "/v1/topics", "GET HEAD"),
        ("POST", "/healthz", "GET HEAD"),
    ],
)
def test_unsupported_method_lists_the_supported_ones(client: Client, method: str, path: str, allowed: str) -> None:
    answer = client.call(method, path)

    assert (answer.status, answer.code) == (405, "INVALID_REQUEST")
    assert set(allowed.split()) == set(answer.headers["allow"].split(", ")) - {"OPTIONS"}


@pytest.mark.parametrize("topic", [".", "..", "~", "~Lg==", "a/b"])
def test_a_path_names_the_topic(client: Client, topic: str) -> None:
    segment = tilde(topic) if topic in {".", ".."} else quote(topic, safe="")
    client.ok("PUT", f"/v1/topics/{segment}", {"partitions": 1})

    assert client.ok("GET", f"/v1/topics/{segment}")["topic"] == topic


def test_path_without_a_group_is_not_parsed() -> None:
    assert read_group_path("GET", b"/v1/groups") is None
    assert read_group_path("GET", b"/v1/topics/a%2Fb") is None


def test_a_group_id_has_255_characters_at_most() -> None:
    assert read_group_id(b"x" * 255) == "x" * 255
    with pytest.raises(InvalidGroupId, match="256 characters"):
        read_group_id(b"x" * 256)
