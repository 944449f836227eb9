"""Commit, fetch, query and delete offsets over HTTP."""

from contextlib import closing

from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name

from api.http.limits import HttpLimits
from tests.support.databases import Databases
from tests.support.http_client import Client, Group, fresh_id, position
from tests.support.nodes import running_node
from tests.support.offset_log import wait_for_checkpoint

SIMPLE_CONSUMER = {"generation": -1, "member_id": ""}


def test_committed_offsets_are_fetched(group: Group, topic: str) -> None:
    member = group.stable(topic)

    answer = member.commit(position(7, metadata="seen", leader_epoch=2, topic=topic, log_end_offset=9))

    assert answer.json == {"offsets": [{"topic": topic, "partition": 0, "code": "NONE"}]}
    (fetched,) = group.client.ok("GET", f"{group.path}/offsets")["offsets"]
    assert fetched.pop("committed_at").endswith("Z")
    assert fetched == {
        "topic": topic,
        "partition": 0,
        "offset": 7,
        "leader_epoch": 2,
        "metadata": "seen",
        "log_end_offset": 9,
    }


def test_an_answered_commit_is_in_the_table_after_a_checkpoint(group: Group, rows: PsycopgConnection) -> None:
    group.post("offsets", {**SIMPLE_CONSUMER, "offsets": [position(41)]})
    wait_for_checkpoint(rows)

    with rows.cursor() as cursor:
        cursor.execute("SELECT committed_offset FROM offsets WHERE group_id = %s", (group.group_id,))
        assert cursor.fetchall() == [(41,)]


def test_simple_consumer_commits_without_member_id(group: Group) -> None:
    answer = group.post("offsets", {**SIMPLE_CONSUMER, "offsets": [position(3), position(4, partition=1)]})

    assert [each["code"] for each in answer.json["offsets"]] == ["NONE", "NONE"]


def test_each_partition_has_its_own_result(client: Client, group: Group) -> None:
    topic = fresh_id("topic")
    client.ok("PUT", f"/v1/topics/{topic}", {"partitions": 1})
    long = "x" * 4_097

    answer = group.post(
        "offsets",
        {
            **SIMPLE_CONSUMER,
            "offsets": [position(1, topic=topic), position(1, topic=topic, partition=1), position(1, metadata=long)],
        },
    )

    codes = [each["code"] for each in answer.json["offsets"]]
    assert codes == ["NONE", "UNKNOWN_TOPIC_OR_PARTITION", "OFFSET_METADATA_TOO_LARGE"]
    assert {name for each in answer.json["offsets"] for name in each} == {"topic", "partition", "code"}


def test_a_commit_with_too_much_metadata_is_refused(group: Group) -> None:
    limit = HttpLimits().max_metadata_per_commit
    offsets = [position(1, partition=each, metadata="x" * 4_096) for each in range(limit // 4_096 + 1)]
    refused = group.post("offsets", {**SIMPLE_CONSUMER, "offsets": offsets})
    answer = group.post("offsets", {**SIMPLE_CONSUMER, "offsets": offsets[1:]})

    assert (refused.status, refused.code) == (409, "POLICY_VIOLATION")
    assert refused.json["detail"] == f"the commit has {limit + 4_096} characters of metadata, and may have {limit}"
    assert {each["code"] for each in answer.json["offsets"]} == {"NONE"}


def test_a_stale_member_commits_nothing(group: Group) -> None:
    member = group.stable()

    answer = group.post("offsets", {"generation": 99, "member_id": member.member_id, "offsets": [position(7)]})

    assert (answer.status, answer.code, answer.json["action"]) == (409, "ILLEGAL_GENERATION", "rejoin")
    assert group.client.ok("GET", f"{group.path}/offsets") == {"offsets": [], "next_cursor": None}


def test_a_fetch_can_be_narrowed_to_topics(group: Group) -> None:
    offsets = [position(1, topic="b"), position(2, topic="a"), position(3, topic="c d")]
    group.post("offsets", {**SIMPLE_CONSUMER, "offsets": offsets})

    everything = group.client.ok("GET", f"{group.path}/offsets")["offsets"]
    some = group.client.ok("GET", f"{group.path}/offsets?topic=c%20d&topic=a")["offsets"]

    assert [each["topic"] for each in everything] == ["a", "b", "c d"]
    assert [each["offset"] for each in some] == [2, 3]


def test_a_query_answers_every_partition_in_the_order_asked(group: Group) -> None:
    group.post("offsets", {**SIMPLE_CONSUMER, "offsets": [position(5, partition=1)]})

    answer = group.post("offsets/query", {"partitions": [{"topic": "orders", "partitions": [2, 1]}]})

    missing, found = answer.json["offsets"]
    assert missing == {
        "topic": "orders",
        "partition": 2,
        "offset": -1,
        "leader_epoch": -1,
        "metadata": "",
        "committed_at": None,
        "log_end_offset": None,
    }
    assert (found["partition"], found["offset"]) == (1, 5)


def test_query_without_partitions_returns_no_offsets(group: Group) -> None:
    assert group.post("offsets/query", {"partitions": []}).json == {"offsets": []}


def test_one_partition_or_a_whole_topic_can_be_deleted(group: Group) -> None:
    group.post("offsets", {**SIMPLE_CONSUMER, "offsets": [position(n, partition=n) for n in range(3)]})

    one = group.client.ok("DELETE", f"{group.path}/offsets?topic=orders&partition=1&reason=tidy")
    rest = group.client.ok("DELETE", f"{group.path}/offsets?topic=orders")

    assert one == {"offsets": [{"topic": "orders", "partition": 1, "code": "NONE"}]}
    assert [each["partition"] for each in rest["offsets"]] == [0, 2]
    assert group.client.ok("GET", f"{group.path}/offsets") == {"offsets": [], "next_cursor": None}


def test_deleted_offsets_are_archived_under_the_change_that_is_answered(group: Group, rows: PsycopgConnection) -> None:
    group.post("offsets", {**SIMPLE_CONSUMER, "offsets": [position(8)]})
    key = "0f4e8d52-6d0b-4a57-9c3c-8a2f6e0f7b11"

    answer = group.client.call("DELETE", f"{group.path}/offsets?topic=orders", headers={"Idempotency-Key": key})

    assert answer.headers["x-muster-change-id"] == key
    with rows.cursor() as cursor:
        cursor.execute("SELECT committed_offset FROM archived_offsets WHERE change_id = %s", (key,))
        assert cursor.fetchall() == [(8,)]


def test_offsets_of_subscribed_topics_are_kept(group: Group) -> None:
    member = group.stable()
    member.commit(position(7))

    answer = group.client.ok("DELETE", f"{group.path}/offsets?topic=orders&partition=0")

    assert answer["offsets"][0]["code"] == "GROUP_SUBSCRIBED_TO_TOPIC"


def test_a_deletion_that_is_refused_is_no_change(group: Group) -> None:
    group.stable().commit(position(7))

    answer = group.client.call("DELETE", f"{group.path}/offsets?topic=orders&reason=tidy")

    assert [each["code"] for each in answer.json["offsets"]] == ["GROUP_SUBSCRIBED_TO_TOPIC"]
    assert "x-muster-change-id" not in answer.headers
    assert group.client.ok("GET", f"/v1/changes?group_id={group.group_id}")["changes"] == []


def test_dry_run_reports_the_responses_of_a_deletion(group: Group) -> None:
    group.stable().commit(position(7), position(8, topic="visits"))

    answers = [
        group.client.call("DELETE", f"{group.path}/offsets?topic={topic}&dry_run=true")
        for topic in ("orders", "visits")
    ]

    codes = [[each["code"] for each in answer.json["offsets"]] for answer in answers]
    assert codes == [["GROUP_SUBSCRIBED_TO_TOPIC"], ["NONE"]]
    assert not any("x-muster-change-id" in answer.headers for answer in answers)
    assert [each["offset"] for each in group.client.ok("GET", f"{group.path}/offsets")["offsets"]] == [7, 8]
    assert group.client.ok("GET", f"/v1/changes?group_id={group.group_id}")["changes"] == []


def test_offsets_of_an_unknown_group_cannot_be_deleted(group: Group) -> None:
    answer = group.client.call("DELETE", f"{group.path}/offsets?topic=orders")

    assert (answer.status, answer.code) == (404, "GROUP_ID_NOT_FOUND")


def test_deletions_of_too_many_offsets_are_refused(databases: Databases) -> None:
    url = databases.create()
    with running_node(url, max_partitions_per_request=2) as node, closing(Client(node.url)) as client:
        group = client.group(fresh_id())
        for topic, partition in (("orders", 0), ("orders", 1), ("orders", 2), ("views", 0)):
            offsets = [position(1, topic=topic, partition=partition)]
            client.ok("POST", f"{group.path}/offsets", {**SIMPLE_CONSUMER, "offsets": offsets})

        def refused(path: str) -> str:
            answer = client.call("DELETE", f"{group.path}{path}")
            assert (answer.status, answer.code) == (400, "INVALID_REQUEST")
            return str(answer.json["detail"])

        assert "more than 2 offsets" in refused("?reason=tidy")
        assert "more than 2 offsets" in refused("/offsets?topic=orders&dry_run=true")
        assert "name a partition" in refused("/offsets?topic=orders")
        for query in ("topic=orders&partition=2", "topic=orders"):
            client.ok("DELETE", f"{group.path}/offsets?{query}")
        assert client.call("DELETE", f"{group.path}?reason=tidy").status == 204
    databases.drop(url)


def test_empty_group_id_stores_offsets(client: Client) -> None:
    client.ok("POST", "/v1/groups/~/offsets", {**SIMPLE_CONSUMER, "offsets": [position(6)]})

    assert client.ok("GET", "/v1/groups/~/offsets")["offsets"][0]["offset"] == 6
    query = {"partitions": [{"topic": "orders", "partitions": [0]}]}
    assert client.ok("POST", "/v1/groups/~/offsets/query", query)["offsets"][0]["offset"] == 6
    assert client.ok("GET", "/v1/groups/~")["group_id"] == ""
    assert client.call("DELETE", "/v1/groups/~?reason=tidy").status == 204


def test_committed_offsets_are_paged_by_topic_and_partition(client: Client) -> None:
    group = client.group(fresh_id())
    partitions = [(topic, number) for topic in ("a", "b") for number in range(4)]
    offsets = [{"topic": topic, "partition": number, "offset": number} for topic, number in partitions]
    group.client.ok("POST", f"{group.path}/offsets", {**SIMPLE_CONSUMER, "offsets": offsets})

    def pages(query: str) -> list[list[tuple[str, int]]]:
        found: list[list[tuple[str, int]]] = []
        cursor: str | None = ""
        while cursor is not None:
            page = client.ok("GET", f"{group.path}/offsets?limit=3{query}&cursor={cursor}")
            found.append([(each["topic"], each["partition"]) for each in page["offsets"]])
            cursor = page["next_cursor"]
        return found

    assert pages("") == [partitions[:3], partitions[3:6], partitions[6:]]
    assert pages("&topic=b") == [partitions[4:7], partitions[7:]]
