"""Tokens with access control entries: operations apart, patterns of groups and topics, denials."""

import json
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from hashlib import sha256

import psycopg2
import pytest

from api.http import base64url
from muster.settings import psql_url
from tests.support.databases import Databases
from tests.support.http_client import Answer, Client, Json
from tests.support.nodes import CLUSTER_SECRET, running_node
from tests.support.report_rows import DAY, FREQUENCY, insert_reports, report
from tests.support.store_rows import uuid_of
from tests.support.stored_history import insert
from tests.support.waiting import poll_until


def acl(permission: str, operations: str, resource: str, pattern: str, name: str) -> Json:
    return {
        "permission": permission,
        "operations": operations.split(),
        "resource": resource,
        "pattern": pattern,
        "name": name,
    }


def entry(token: str, *acls: Json, role: str | None = None) -> Json:
    return {"sha256": sha256(token.encode()).hexdigest(), "actor": token, "role": role, "acls": list(acls)}


ENTRIES = [
    entry("operator", role="operator"),
    entry("careful", acl("DENY", "RESET DELETE", "GROUP", "PREFIXED", "payments"), role="operator"),
    entry(
        "committer",
        acl("ALLOW", "COMMIT", "GROUP", "LITERAL", "billing"),
        acl("ALLOW", "COMMIT", "TOPIC", "PREFIXED", "orders"),
        acl("DENY", "COMMIT", "TOPIC", "LITERAL", "orders-secret"),
        acl("ALLOW", "READ", "TOPIC", "LITERAL", "orders-secret"),
    ),
    entry(
        "watcher",
        acl("ALLOW", "DESCRIBE", "GROUP", "LITERAL", "bill_ng"),
        acl("ALLOW", "DESCRIBE", "GROUP", "PREFIXED", "pay"),
        acl("DENY", "DESCRIBE", "GROUP", "LITERAL", "payments-2"),
    ),
    entry(
        "resetter",
        acl("ALLOW", "RESET", "GROUP", "LITERAL", "billing"),
        acl("ALLOW", "RESET", "TOPIC", "LITERAL", "orders"),
    ),
    entry(
        "owner", acl("ALLOW", "ALL", "GROUP", "LITERAL", "billing"), acl("ALLOW", "ALL", "TOPIC", "LITERAL", "orders")
    ),
]


@pytest.fixture(scope="module")
def database(databases: Databases) -> Iterator[str]:
    url = databases.create()
    yield url
    databases.drop(url)


@pytest.fixture(scope="module")
def node(database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    path = tmp_path_factory.mktemp("tokens") / "tokens.json"
    path.write_text(json.dumps({"tokens": ENTRIES}))
    with (
        running_node(database, tokens_file=str(path), cluster_secret=CLUSTER_SECRET) as running,
        closing(Client(running.url)) as client,
    ):
        for group_id in ("billing", "bill_ng", "payments-1", "payments-2", "payments-3"):
            poll_until(partial(commits, client, f"/v1/groups/{group_id}/offsets"))
        yield client


def send(client: Client, token: str, method: str, path: str, body: Json = None) -> Answer:
    content = None if body is None else client.encoded(body)
    kind = {} if body is None else {"Content-Type": "application/json"}
    return client.send(method, path, content, {"Authorization": f"Bearer {token}", **kind})


def commits(client: Client, path: str) -> bool:
    return send(client, "operator", "POST", path, commit("views")).status == 200


def commit(*topics: str) -> Json:
    return {
        "generation": -1,
        "member_id": "",
        "offsets": [{"topic": topic, "partition": 0, "offset": 7} for topic in topics],
    }


def test_operations_are_apart(node: Client) -> None:
    join = {"member_id": "", "protocol_type": "consumer", "protocols": [], "session_timeout_ms": 30_000}
    assert send(node, "committer", "POST", "/v1/groups/billing/offsets", commit("orders")).status == 200
    for method, path, body in (
        ("POST", "/v1/groups/billing/join", join),
        ("POST", "/v1/groups/billing/offsets/reset", {"to": "earliest"}),
        ("DELETE", "/v1/groups/billing", None),
        ("DELETE", "/v1/groups/billing/offsets?topic=orders", None),
        ("PUT", "/v1/groups/billing/config", {"values": {}, "reason": "why"}),
        ("GET", "/v1/groups/billing", None),
        ("POST", "/v1/groups/billing-2/offsets", commit("orders")),
    ):
        answer = send(node, "committer", method, path, body)
        assert (answer.status, answer.code) == (403, "GROUP_AUTHORIZATION_FAILED"), path


def test_commits_of_topics_that_are_not_allowed_are_refused_one_by_one(node: Client) -> None:
    topics = ("orders", "views", "orders-secret", "orders-2")
    answer = send(node, "committer", "POST", "/v1/groups/billing/offsets", commit(*topics))

    refused = "TOPIC_AUTHORIZATION_FAILED"
    assert [(each["topic"], each["code"]) for each in answer.json["offsets"]] == [
        ("orders", "NONE"),
        ("views", refused),
        ("orders-secret", refused),
        ("orders-2", "NONE"),
    ]
    only_views = send(node, "committer", "POST", "/v1/groups/billing/offsets", commit("views", "views"))
    assert [each["code"] for each in only_views.json["offsets"]] == [refused, refused]


def test_offsets_of_topics_that_are_not_allowed_are_not_read(node: Client) -> None:
    path = "/v1/groups/billing/offsets"
    assert send(node, "operator", "POST", path, commit("orders", "orders-secret", "views")).status == 200
    fetched = send(node, "committer", "GET", path).json["offsets"]

    assert {each["topic"] for each in fetched} >= {"orders", "orders-secret"}
    assert "views" not in {each["topic"] for each in fetched}
    for answer in (
        send(node, "committer", "GET", f"{path}?topic=views&topic=orders"),
        send(node, "committer", "POST", f"{path}/query", {"partitions": [{"topic": "views", "partitions": [0]}]}),
    ):
        assert (answer.status, answer.code) == (403, "TOPIC_AUTHORIZATION_FAILED")
        assert answer.json["detail"] == "the token does not allow READ on the topic views"


@pytest.mark.parametrize("limit", [1, 2, 3, 1_000])
def test_cursors_name_no_topic_that_is_not_allowed(node: Client, limit: int) -> None:
    path = "/v1/groups/billing/offsets"
    assert send(node, "operator", "POST", path, commit("lost", "orders", "orders-2", "views", "wages")).status == 200
    topics, cursor = [], ""
    while True:
        page = send(node, "committer", "GET", f"{path}?limit={limit}&cursor={cursor}").json
        topics += [each["topic"] for each in page["offsets"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
        assert len(page["offsets"]) == limit
        place = base64url.decode(cursor).partition(b" ")[2]
        assert place.startswith(b'["orders'), "that of an offset that was shown"

    assert [each for each in topics if each != "orders-secret"] == ["orders", "orders-2"]


def test_a_reset_needs_its_topics(node: Client) -> None:
    path = "/v1/groups/billing/offsets/reset"
    named = {"to": "offset", "offset": 1, "topics": [{"topic": "orders", "partitions": [0]}]}
    other = {"to": "offset", "offset": 1, "topics": [{"topic": "views", "partitions": [0]}]}

    assert send(node, "resetter", "POST", path, named).status == 200
    for body, said in ((other, "RESET on the topic views"), ({"to": "earliest"}, "name the topics to reset")):
        answer = send(node, "resetter", "POST", path, body)
        assert (answer.status, answer.code) == (403, "TOPIC_AUTHORIZATION_FAILED")
        assert said in answer.json["detail"]


def test_an_undo_needs_all_operations_on_the_group_and_on_all_topics(node: Client) -> None:
    reset = {
        "to": "given",
        "offsets": [{"topic": "views", "partition": 0, "offset": 1}],
        "dry_run": False,
        "reason": "x",
    }
    settings = {"values": {"group_max_size": 9}, "reason": "x"}
    payments = send(node, "operator", "POST", "/v1/groups/payments-1/offsets/reset", reset).json["change_id"]
    billing = send(node, "operator", "POST", "/v1/groups/billing/offsets/reset", reset).json["change_id"]
    config = send(node, "operator", "PUT", "/v1/groups/billing/config", settings).headers["x-muster-change-id"]

    def undo(token: str, change_id: str) -> Answer:
        return send(node, token, "POST", f"/v1/changes/{change_id}/undo", {"reason": "x"})

    assert undo("careful", payments).code == "GROUP_AUTHORIZATION_FAILED", "its resets of payments are denied"
    assert undo("owner", billing).code == "TOPIC_AUTHORIZATION_FAILED", "it may not write offsets of views"
    assert undo("owner", config).status == 200
    assert undo("operator", billing).status == 200


def test_a_denial_wins_over_a_role(node: Client) -> None:
    assert send(node, "careful", "POST", "/v1/groups/payments-1/offsets/reset", {"to": "earliest"}).status == 403
    assert send(node, "careful", "DELETE", "/v1/groups/payments-1").status == 403
    assert send(node, "careful", "GET", "/v1/groups/payments-1").status == 200
    assert send(node, "careful", "DELETE", "/v1/topics/orders").status == 403, "deleting needs every group"


def test_lists_have_the_groups_that_the_token_may_describe(node: Client) -> None:
    wanted = ["bill_ng", "payments-1", "payments-3"]
    listed, next_cursor = [], ""
    while True:
        page = send(node, "watcher", "GET", f"/v1/groups?limit=1&cursor={next_cursor}").json
        listed += [each["group_id"] for each in page["groups"]]
        next_cursor = page["next_cursor"]
        if next_cursor is None:
            break
    overview = send(node, "watcher", "GET", "/v1/overview/groups").json

    assert listed == wanted
    assert sorted(each["group_id"] for each in overview["groups"]) == wanted
    assert send(node, "watcher", "GET", "/v1/groups/payments-2").status == 403


def test_pages_and_cursors_are_of_groups_that_the_token_may_describe(node: Client, database: str) -> None:
    own = {"bill_ng", "payments-1", "payments-3"}
    group_ids = {*own, "billing", "payments-2"}
    run_id = uuid_of("run")
    with closing(psycopg2.connect(psql_url(database))) as connection:
        insert_reports(connection, "rebalances", [report(each, of=FREQUENCY) for each in group_ids])
        run = {"run_id": run_id, "kind": "offset_retention", "as_of": DAY, "status": "proposed", "counts": {}}
        insert(connection, "maintenance_runs", run)
        candidate = {"run_id": run_id, "shard_id": 0, "partition": 0, "commit_version": 1, "committed_at": DAY}
        topic = {"topic": "views", "reason": "retention"}
        insert(connection, "expiry_candidates", *({**candidate, **topic, "group_id": each} for each in group_ids))
    for group_id in group_ids:
        config = {"values": {"group_max_size": 9}, "reason": "x"}
        assert send(node, "operator", "PUT", f"/v1/groups/{group_id}/config", config).status == 200

    for path, field in (
        (f"/v1/maintenance/runs/{run_id}/candidates?", "candidates"),
        ("/v1/reports/rebalances?", "reports"),
        ("/v1/reports/rebalances?days=3000&", "reports"),
        ("/v1/changes?action=put_settings&", "changes"),
    ):
        listed: list[str] = []
        cursor: str | None = ""
        while cursor is not None:
            page = send(node, "watcher", "GET", f"{path}limit=1&cursor={cursor}").json
            listed += [each["group_id"] for each in page[field]]
            cursor = page["next_cursor"]
            assert len(page[field]) == 1, "a page is shorter only if it is the last one"
        assert sorted(listed) == sorted(own), path
