"""HTTP client of the commands: node address, actor, rejections, retries and unreachable nodes."""

import getpass
import os
import socket
from pathlib import Path

import pytest

from coordinator_core.protocol.errors import READ_ONLY_MIRROR
from muster import node_client
from muster.data_dir import DataDir
from muster.local.database import command_database
from muster.settings import load_settings
from tests.support.fake_node import FakeNode
from tests.support.http_client import Group, position
from tests.support.muster_command import Muster, commit
from tests.support.nodes import Node

NOT_NOW = {"code": "COORDINATOR_NOT_AVAILABLE", "action": "retry", "detail": "the shard is between two owners"}


def test_unreachable_node_has_its_own_sentence_and_exit_code(bare_muster: Muster) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"

    said = bare_muster.refused(3, "groups", "list", "--url", url)

    assert said == f"No node answers at {url} (Connection refused); muster up starts one, and --url names another."


@pytest.mark.parametrize("body", [b"<html>", b"[]", b"3"])
def test_foreign_server_is_reported(bare_muster: Muster, fake: FakeNode, body: bytes) -> None:
    fake.answers = [(200, body)]

    said = bare_muster.refused(3, "groups", "list", "--url", fake.url)

    assert said == f"What answers at {fake.url} (status 200) is not a Muster node."


def test_field_that_an_older_node_lacks_is_named(bare_muster: Muster, fake: FakeNode) -> None:
    fake.says(200, {"groups": [{"group_id": "g"}], "next_cursor": None})

    assert bare_muster.refused(1, "groups", "overview", "--url", fake.url) == (
        "The node's answer has no field rebalance_trigger: it is of another release than this command; until all nodes"
        " are upgraded, use the command of theirs."
    )


@pytest.mark.parametrize("command", ["list", "overview", "describe --all-groups"])
def test_groups_of_a_node_that_is_not_ready_are_shown_with_the_reason(
    bare_muster: Muster, fake: FakeNode, command: str
) -> None:
    """As those of a mirror whose Kafka cluster is away."""
    fake.says(200, {"groups": [], "next_cursor": None})
    fake.says(503, {"is_ready": False, "reasons": ["kafka-1:9092 does not answer"]})

    ran = bare_muster("groups", *command.split(), "--url", fake.url)

    assert (ran.exit_code, fake.seen[1][0]) == (0, "/readyz")
    assert ran.err == (
        "muster: The node is not ready, and may show what was known last: kafka-1:9092 does not answer.\n"
    )


@pytest.mark.parametrize(
    "command",
    ["groups delete g", "groups remove-member g m", "topics delete orders"],
)
def test_dry_run_of_what_a_mirror_would_refuse_is_refused(bare_muster: Muster, fake: FakeNode, command: str) -> None:
    fake.says(200, {"values": {}, "unconfirmed_nodes": [], "mirrored_cluster": "kafka-1"})

    assert bare_muster.refused(1, *command.split(), "--url", fake.url) == f"{READ_ONLY_MIRROR} (INVALID_REQUEST)."


def test_token_that_may_not_read_the_settings_is_no_reason_to_refuse_a_dry_run(
    bare_muster: Muster, fake: FakeNode
) -> None:
    fake.says(403, {"code": "CLUSTER_AUTHORIZATION_FAILED", "action": "fix", "detail": "not allowed"})
    fake.says(200, {"topic": "orders", "partition_count": 3})

    ran = bare_muster.ok("topics", "delete", "orders", "--url", fake.url)

    assert ran.out.startswith("orders, 3 partitions, would be deleted,")


@pytest.mark.parametrize("status", [200, 308, 502])
@pytest.mark.parametrize("command", ["groups list", "groups delete g --execute", "topics set orders --partitions 3"])
def test_proxy_that_answers_without_a_body_is_reported(
    bare_muster: Muster, fake: FakeNode, status: int, command: str
) -> None:
    fake.answers = [(status, b"")]

    said = bare_muster.refused(3, *command.split(), "--url", fake.url)

    assert said == f"What answers at {fake.url} (status {status}) is not a Muster node."


def test_request_to_a_busy_node_is_repeated_with_the_same_key(fake: FakeNode) -> None:
    fake.says(503, NOT_NOW)
    fake.says(429, {**NOT_NOW, "code": "THROTTLING_QUOTA_EXCEEDED"})
    fake.answers.append((204, b""))

    node_client.NodeClient(fake.url, "ada").delete("/v1/groups/g", "a test")

    keys = {headers["Idempotency-Key"] for _, headers in fake.seen}
    assert (len(fake.seen), len(keys)) == (3, 1)


def test_busy_node_is_given_up_after_the_timeout(
    bare_muster: Muster, fake: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_client.NodeClient.__init__, "__defaults__", (None, None, 0.05, 30.0))
    fake.says(503, NOT_NOW)

    assert bare_muster.refused(3, "groups", "list", "--url", fake.url) == (
        "the shard is between two owners (COORDINATOR_NOT_AVAILABLE)."
    )


def test_groups_without_an_owner_are_waited_for_once(
    bare_muster: Muster, fake: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_client.NodeClient.__init__, "__defaults__", (None, None, 0.05, 30.0))
    fake.says(503, NOT_NOW)

    said = bare_muster.refused(1, "groups", "describe", "a", "b", "c", "--url", fake.url)

    assert said.count("the shard is between two owners") == 3
    assert [path for path, _ in fake.seen][-3:] == [f"/v1/groups/{each}" for each in "abc"]


@pytest.mark.parametrize("retry_after", ["86400", "inf", "-1", "Sat, 28 Nov 2026 04:00:00 GMT"])
def test_client_waits_no_longer_than_the_timeout(
    bare_muster: Muster, fake: FakeNode, monkeypatch: pytest.MonkeyPatch, retry_after: str
) -> None:
    monkeypatch.setattr(node_client.NodeClient.__init__, "__defaults__", (None, None, 0.05, 30.0))
    fake.says(503, NOT_NOW)
    fake.retry_after = retry_after

    assert bare_muster.refused(3, "groups", "list", "--url", fake.url) == (
        "the shard is between two owners (COORDINATOR_NOT_AVAILABLE)."
    )


def test_quarantined_group_is_reported_without_retry(bare_muster: Muster, fake: FakeNode) -> None:
    fake.says(503, {**NOT_NOW, "detail": "the group is quarantined", "quarantine_reason": "groups.state is 'stable'"})

    said = bare_muster.refused(1, "groups", "describe", "g", "--url", fake.url)

    assert said == "g: the group is quarantined (COORDINATOR_NOT_AVAILABLE)."
    assert [path for path, _ in fake.seen].count("/v1/groups/g") == 1


def test_token_is_sent_and_determines_the_actor(
    bare_muster: Muster, fake: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = {"group_max_size": {"value": 1, "source": "cluster"}}
    fake.says(200, {"groups": [], "next_cursor": None, "values": values})
    monkeypatch.setenv("MUSTER_TOKEN", "t0ken")
    monkeypatch.setenv("MUSTER_URL", fake.url)

    bare_muster.ok("groups", "list")
    bare_muster("config", "set", "group_max_size=1")
    bare_muster("config", "set", "group_max_size=1", "--actor", "Jürgen")
    monkeypatch.delenv("MUSTER_TOKEN")
    bare_muster("config", "set", "group_max_size=1")

    puts = [headers for path, headers in fake.seen if "Idempotency-Key" in headers]
    assert fake.seen[0][1]["Authorization"] == "Bearer t0ken"
    assert [headers.get("X-Muster-Actor", "").encode("latin-1").decode() for headers in puts] == [
        "",
        "Jürgen",
        getpass.getuser(),
    ]
    assert "Authorization" not in puts[-1]


@pytest.mark.parametrize("token", ["hunter2\n", "The token:\n\n  hunter2\n", "hunter2\r", "hunter2ü", "hunter2\udcff"])
@pytest.mark.parametrize("command", [["groups", "list"], ["up", "--no-airflow"], ["job", "offset_retention"]])
def test_unencodable_token_is_rejected_and_not_printed(
    bare_muster: Muster, monkeypatch: pytest.MonkeyPatch, token: str, command: list[str]
) -> None:
    monkeypatch.setenv("MUSTER_TOKEN", token)

    said = bare_muster.refused(2, *command)

    assert said.startswith("MUSTER_TOKEN: a token is one line of printable ASCII; muster token new prints it on")
    assert "hunter2" not in said
    assert not list(Path(os.environ["MUSTER_DATA_DIR"]).iterdir())


def test_doctor_reports_such_a_token(bare_muster: Muster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUSTER_TOKEN", "hunter2\n")

    ran = bare_muster("doctor", "--json")

    (found,) = [each for each in ran.json["checks"] if each["check"] == "node"]
    assert found["message"].startswith("MUSTER_TOKEN: a token is one line")
    assert "hunter2" not in ran.out + ran.err


@pytest.mark.parametrize("actor", ["x\ny", "x\0y", "\x1b[2J"])
def test_unencodable_actor_is_rejected(bare_muster: Muster, actor: str) -> None:
    for command in (["config", "set", "group_max_size=1"], ["token", "new", "--role", "viewer"]):
        assert bare_muster.refused(2, *command, "--actor", actor) == (
            "--actor: a name has no line breaks or other control characters, and is UTF-8."
        )


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://[::1", "http://[::1"),
        ("http://host:99999", "http://host:99999"),
        ("http://:8080", "http://:8080"),
        ("http://a b", "http://a b"),
        ("http://host\n:8080", "http://host�:8080"),
        ("http://u:hunter2@[::1", "http://[::1"),
    ],
)
def test_invalid_address_is_reported_without_password(
    bare_muster: Muster, monkeypatch: pytest.MonkeyPatch, url: str, shown: str
) -> None:
    monkeypatch.setenv("MUSTER_URL", url)

    said = bare_muster.refused(2, "groups", "list")

    assert said == f"A node's URL looks like http://host:port, and not like {shown}."


def test_the_node_of_the_run_in_the_data_directory_is_found(
    bare_muster: Muster, node: Node, group: Group, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    commit(group, position(1))
    monkeypatch.setenv("MUSTER_DATA_DIR", str(tmp_path))
    data_dir = DataDir(tmp_path)
    data_dir.create()
    with data_dir.locked("up") as lock:
        lock.publish_node_url(node.url)
        assert group.group_id in bare_muster.ok("groups", "list").out


def test_the_node_of_muster_serve_is_found_too(tmp_path: Path) -> None:
    settings = load_settings(data_dir=tmp_path, http_port=9_999)

    with command_database(settings, "serve", node_url=settings.node_url):
        holder = DataDir(tmp_path).holder()

    assert holder is not None
    assert holder.node_url == "http://127.0.0.1:9999"


def test_rejection_is_escaped_for_the_terminal(bare_muster: Muster, fake: FakeNode) -> None:
    fake.says(403, {"code": "GROUP_AUTHORIZATION_FAILED", "action": "fix", "detail": "the token \x1b[2J is not"})

    said = bare_muster.refused(1, "groups", "list", "--url", fake.url)

    assert said == "the token �[2J is not (GROUP_AUTHORIZATION_FAILED)."
