"""Requests about groups are written as Kafka's message definitions say, and their responses are read so."""

from typing import Any

import pytest

from mirror.group_requests import DescribeConsumerGroups, DescribeGroups, FetchOffsets, ListGroups

NO_TAGS = b"\0"
FALSE = b"\0"
NO_ERROR = b"\0\0"
NOT_THROTTLED = b"\0\0\0\0"
NULL = b"\0"
NOT_ASKED = b"\x80\0\0\0"
"""The authorized operations, where they are not asked for."""


def text(value: str) -> bytes:
    """Return a compact string: its length plus one, and its bytes."""
    return bytes([len(value) + 1]) + value.encode()


def array(*elements: bytes) -> bytes:
    """Return a compact array: its length plus one, and its elements."""
    return bytes([len(elements) + 1]) + b"".join(elements)


def int32(value: int) -> bytes:
    return value.to_bytes(4, "big", signed=True)


@pytest.mark.parametrize(
    ("request_of", "version", "encoded"),
    [
        (ListGroups(["Stable"]), (16, 4), array(text("Stable")) + NO_TAGS),
        (ListGroups(["Stable"]), (16, 5), array(text("Stable")) + array() + NO_TAGS),
        (ListGroups(), (16, 5), array() + array() + NO_TAGS),
        (DescribeGroups(["a", "b"]), (15, 5), array(text("a"), text("b")) + FALSE + NO_TAGS),
        (DescribeConsumerGroups(["a"]), (69, 0), array(text("a")) + FALSE + NO_TAGS),
        (FetchOffsets(["a"]), (9, 8), array(text("a") + NULL + NO_TAGS) + FALSE + NO_TAGS),
    ],
)
def test_request_is_encoded_in_the_newest_common_version(
    request_of: Any,  # noqa: ANN401 - aiokafka has no types
    version: tuple[int, int],
    encoded: bytes,
) -> None:
    api_key, newest = version
    built = request_of.prepare({api_key: (0, newest)})
    assert (api_key, newest, True) == (built.API_KEY, built.API_VERSION, built.FLEXIBLE_VERSION)
    assert (api_key, newest) == (built.RESPONSE_TYPE.API_KEY, built.RESPONSE_TYPE.API_VERSION)
    assert built.encode() == encoded


def test_broker_without_these_versions_is_refused() -> None:
    with pytest.raises(NotImplementedError, match="ListGroups v0"):
        ListGroups().prepare({16: (0, 3)})


def decoded(request: Any, api_key: int, version: int, response: bytes) -> dict[str, Any]:  # noqa: ANN401 - likewise
    answer: dict[str, Any] = request.prepare({api_key: (version, version)}).RESPONSE_TYPE.decode(response).to_object()
    return answer


@pytest.mark.parametrize(("version", "group_type"), [(4, {}), (5, {"group_type": "classic"})])
def test_listed_groups_are_decoded(version: int, group_type: dict[str, str]) -> None:
    group = text("g") + text("consumer") + text("Stable") + b"".join(map(text, group_type.values())) + NO_TAGS
    answer = decoded(ListGroups(), 16, version, NOT_THROTTLED + NO_ERROR + array(group) + NO_TAGS)
    (found,) = answer["groups"]
    assert found == {"group_id": "g", "protocol_type": "consumer", "state": "Stable", **group_type, "tags": {}}


def test_described_group_is_decoded() -> None:
    member = text("m") + NULL + text("client") + text("/h") + array(b"s") + array(b"a") + NO_TAGS
    group = text("g") + text("Stable") + text("consumer") + text("range") + array(member) + NOT_ASKED + NO_TAGS
    answer = decoded(DescribeGroups([]), 15, 5, NOT_THROTTLED + array(NO_ERROR + group) + NO_TAGS)
    (found,) = answer["groups"]
    assert (found["group_id"], found["state"], found["protocol"]) == ("g", "Stable", "range")
    assert found["members"] == [
        {
            "member_id": "m",
            "group_instance_id": None,
            "client_id": "client",
            "client_host": "/h",
            "metadata": b"s",
            "assignment": b"a",
            "tags": {},
        }
    ]


def test_described_consumer_group_is_decoded() -> None:
    topic = bytes(range(16)) + text("orders") + array(int32(3)) + NO_TAGS
    assigned, nothing = array(topic) + NO_TAGS, array() + NO_TAGS
    member = text("m") + NULL + NULL + int32(7) + text("client") + text("/h") + array(text("orders")) + NULL
    members = array(member + assigned + nothing + NO_TAGS)
    group = NULL + text("g") + text("Stable") + int32(7) + int32(7) + text("uniform") + members + NOT_ASKED + NO_TAGS
    answer = decoded(DescribeConsumerGroups([]), 69, 0, NOT_THROTTLED + array(NO_ERROR + group) + NO_TAGS)
    (found,) = answer["groups"]
    (described,) = found["members"]
    assert (found["epoch"], found["assignor"], described["topics"]) == (7, "uniform", ["orders"])
    assert [(each["topic"], each["partitions"]) for each in described["assignment"]["partitions"]] == [("orders", [3])]
    assert described["target_assignment"]["partitions"] == []


def test_committed_offsets_are_decoded() -> None:
    offset = int32(3) + (42).to_bytes(8, "big") + int32(-1) + text("note") + NO_ERROR + NO_TAGS
    topics = array(text("orders") + array(offset) + NO_TAGS)
    answer = decoded(FetchOffsets([]), 9, 8, NOT_THROTTLED + array(text("g") + topics + NO_ERROR + NO_TAGS) + NO_TAGS)
    (group,) = answer["groups"]
    ((found,),) = [topic["partitions"] for topic in group["topics"]]
    assert (group["group_id"], found["partition"], found["offset"], found["metadata"]) == ("g", 3, 42, "note")
