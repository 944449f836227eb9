"""Every list of the HTTP API is paged, or bounded by another limit; its pages together are the whole."""

from collections.abc import Iterator
from typing import Final

import pytest

from tests.support.http_client import Client, Group, Json, gives, join_body, position
from tests.support.waiting import PATIENCE_S, poll_until

AS_ASKED: Final = "as many as the request, which is limited"
GROUP_SIZE: Final = "members of a group (group_max_size), and partitions that they own (member_assignment_max_bytes)"
FEW: Final = "a fixed number of kinds"
BOUNDED: Final = {
    ("post", "/v1/groups/{group_id}/join"): GROUP_SIZE,
    ("post", "/v1/groups/{group_id}/sync"): GROUP_SIZE,
    ("post", "/v1/groups/{group_id}/leave"): AS_ASKED,
    ("post", "/v1/groups/{group_id}/offsets"): AS_ASKED,
    ("post", "/v1/groups/{group_id}/offsets/query"): AS_ASKED,
    ("post", "/v1/groups/{group_id}/offsets/reset"): "max_partitions_per_request",
    ("delete", "/v1/groups/{group_id}/offsets"): "the group's partitions of one topic",
    ("delete", "/v1/topics/{topic}/log-ends"): "the partitions of one topic",
    ("post", "/v1/changes/{change_id}/undo"): "as many as the change changed",
    ("get", "/v1/overview/activity"): "24 hours",
    ("get", "/v1/groups/{group_id}/diagnosis"): "REBALANCES_MAX, WAITS_MAX, SESSIONS_MAX",
    ("get", "/v1/groups/{group_id}/lag/history"): "max_lag_points",
    ("get", "/v1/groups/{group_id}/tuning"): "tuning_max_evictions",
    ("get", "/v1/config"): "nodes of the cluster",
    ("put", "/v1/config"): "nodes of the cluster",
    ("get", "/v1/topics/{topic}"): "TOPIC_PARTITIONS_MAX, TOPIC_GROUPS_MAX",
    ("get", "/v1/maintenance/runs"): "the newest 100",
    ("get", "/readyz"): FEW,
}
"""Method and path → what limits the lists of the answer."""
PAGED: Final = {"limit", "cursor"}


@pytest.fixture(scope="module")
def document(client: Client) -> Json:
    return client.ok("GET", "/openapi.json")


def arrays(document: Json, schema: Json, seen: frozenset[str] = frozenset()) -> Iterator[Json]:
    """Yield every array within a schema."""
    reference = schema.get("$ref")
    if reference is not None and reference not in seen:
        yield from arrays(document, document["components"]["schemas"][reference.rpartition("/")[2]], seen | {reference})
    if "array" in (schema.get("type") or ()):
        yield schema
    inner = [schema.get("items"), schema.get("additionalProperties"), *schema.get("properties", {}).values()]
    forms = [form for key in ("oneOf", "anyOf", "allOf") for form in schema.get(key, ())]
    for each in (*inner, *forms):
        if isinstance(each, dict):
            yield from arrays(document, each, seen)


def test_every_answer_with_a_list_is_paged_or_bounded(document: Json) -> None:
    unpaged = set()
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            schemas = [
                media["schema"]
                for status, answer in operation["responses"].items()
                if status.startswith("2")
                for media in answer.get("content", {}).values()
            ]
            parameters = {each["name"] for each in operation.get("parameters", ())}
            if any(any(arrays(document, schema)) for schema in schemas) and not parameters >= PAGED:
                unpaged.add((method, path))
    assert unpaged == BOUNDED.keys()


def walk(client: Client, path: str, *fields: str, limit: int = 2) -> tuple[dict[str, list[Json]], int]:
    """Return the lists of all pages, and how many pages there were."""
    whole: dict[str, list[Json]] = {field: [] for field in fields}
    cursor: str | None = ""
    pages = 0
    joint = "&" if "?" in path else "?"
    while cursor is not None:
        answer = client.ok("GET", f"{path}{joint}limit={limit}&cursor={cursor}")
        assert sum(len(answer[field]) for field in fields[:1]) <= limit
        for field in fields:
            whole[field] += answer[field]
        cursor = answer["next_cursor"]
        pages += 1
    return whole, pages


def test_topics_come_in_pages(client: Client, group: Group) -> None:
    for number in range(3):
        client.ok("PUT", f"/v1/topics/{group.group_id}-{number}", {"partitions": 1})
    listed, pages = walk(client, "/v1/topics", "topics")
    assert listed["topics"] == client.ok("GET", "/v1/topics")["topics"]
    assert pages == -(-len(listed["topics"]) // 2)


def test_lag_and_ownership_come_in_pages(client: Client, group: Group) -> None:
    member = group.stable()
    group.post(
        "offsets",
        {
            "generation": 1,
            "member_id": member.member_id,
            "offsets": [position(5, partition=number) for number in range(5)],
        },
    )
    lag, pages = walk(client, f"{group.path}/lag", "partitions")
    whole = client.ok("GET", f"{group.path}/lag")
    assert (lag["partitions"], pages) == (whole["partitions"], 3)
    assert client.ok("GET", f"{group.path}/lag?limit=1")["lag"] == whole["lag"]
    listed, _ = walk(client, f"{group.path}/ownership", "ownership", "offsets", limit=1)
    at_once = client.ok("GET", f"{group.path}/ownership")
    assert listed == {field: at_once[field] for field in ("ownership", "offsets")}
    assert [each["partition"] for each in listed["offsets"]] == list(range(5))
    assert listed["ownership"]


def test_members_of_a_group_and_of_a_rebalance_come_in_pages(client: Client, group: Group) -> None:
    first = group.stable()
    parked = [client.later(group, "join", join_body(member_id=group.handshake())) for _ in range(2)]
    poll_until(lambda: len(client.ok("GET", group.path)["members"]) >= 3)
    members, pages = walk(client, group.path, "members")
    listed = [each["member_id"] for each in members["members"]]
    assert (listed, pages) == (sorted(listed), 2)
    assert first.member_id in listed

    group.post("leave", {"members": [{"member_id": first.member_id}]})
    for answer in parked:
        member = group.member(answer.result(PATIENCE_S))
        if member.member_id == member.joined["leader"]:
            assert member.sync(gives(member.member_id, 0)).status == 200
    rebalance = client.ok("GET", f"{group.path}/rebalances")["rebalances"][0]["rebalance_id"]
    path = f"{group.path}/rebalances/{rebalance}/members"
    whole = client.ok("GET", path)
    assert walk(client, path, "members", "waited_for") == ({f: whole[f] for f in ("members", "waited_for")}, 2)
    assert {each["member_id"] for each in whole["members"]} == set(listed)
