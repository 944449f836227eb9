"""Kafka's own tool, kafka-consumer-groups, looks after groups at Muster: all that it has, and what it leaves behind."""

import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg2
import pytest

from muster.settings import psql_url
from tests.support.http_client import Client
from tests.support.kafka_broker import SMALL, KafkaUnavailable, fetch_jars, java_or_unavailable
from tests.support.kafka_listener import PARTITIONS, TOPIC, put_topic
from tests.support.kafka_members import kafka_members
from tests.support.nodes import Node
from tests.support.peers import PEERS, skip_without
from tests.support.stored_history import insert
from tests.support.waiting import poll_until

pytestmark = [pytest.mark.slow, pytest.mark.jvm]

ALL = {(TOPIC, partition) for partition in range(PARTITIONS)}
PATIENT_MS = 45_000
"""A session timeout that no member misses on a busy machine."""
Run = Callable[..., str]
"""Runs the tool with arguments, and returns what it prints."""
COMMITTED = {str(partition): "40" for partition in range(PARTITIONS)}


@pytest.fixture(scope="module")
def tool(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Give the command line of Kafka's kafka-consumer-groups."""
    try:
        java = java_or_unavailable(tmp_path_factory.mktemp("java"))
        jars = fetch_jars(java, artifact="kafka-tools")
    except KafkaUnavailable as reason:
        pytest.skip(str(reason))
    return [java, *SMALL, "-cp", f"{jars}/*", "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"]


@pytest.fixture
def run(tool: list[str], kafka_node: Node) -> Run:
    def run(*arguments: str) -> str:
        command = [*tool, "--bootstrap-server", kafka_node.settings.kafka_address, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


@pytest.fixture
def client(kafka_node: Node) -> Iterator[Client]:
    client = Client(kafka_node.url)
    yield client
    client.close()


def rows(group_id: str, printed: str) -> list[list[str]]:
    """Return the columns of the lines that begin with the group."""
    return [line.split() for line in printed.splitlines() if line.startswith(group_id)]


def described(run: Run, group_id: str) -> dict[str, str]:
    """Return partition → committed offset of the topic's partitions."""
    return {row[2]: row[3] for row in rows(group_id, run("--describe", "--group", group_id)) if row[1] == TOPIC}


def commit_all(client: Client, group_id: str) -> None:
    """Commit an offset of all partitions without a member, and wait until it is known as the log end."""
    offsets = [{"topic": TOPIC, "partition": partition, "offset": 40} for partition in range(PARTITIONS)]
    client.ok("POST", f"/v1/groups/{group_id}/offsets", {"generation": -1, "member_id": "", "offsets": offsets})
    poll_until(lambda: offsets_of(client, group_id) == COMMITTED)


def newest_change(client: Client, group_id: str) -> Any:  # noqa: ANN401  # JSON
    return client.ok("GET", f"/v1/changes?group_id={group_id}&limit=1")["changes"][0]


def undo_newest(client: Client, group_id: str) -> None:
    client.ok("POST", f"/v1/changes/{newest_change(client, group_id)['change_id']}/undo", {"reason": "a test"})


def offsets_of(client: Client, group_id: str) -> dict[str, str]:
    found = client.ok("GET", f"/v1/groups/{group_id}/offsets")["offsets"]
    return {str(each["partition"]): str(each["offset"]) for each in found}


def test_group_with_a_member_is_listed_and_described(run: Run, kafka_node: Node, group_id: str, tmp_path: Path) -> None:
    with kafka_members(tmp_path, kafka_node.settings.kafka_address) as members:
        member = members.join("confluent-kafka", group_id, TOPIC, client_id="reader", session_timeout_ms=PATIENT_MS)
        member.wait_until(lambda member: member.owned() == ALL)
        member.commit(40, "x")
        assert [group_id, "Stable"] in rows(group_id, run("--list", "--state"))
        offsets = rows(group_id, run("--describe", "--group", group_id))
        assert {(row[1], row[2], row[3]) for row in offsets} == {(TOPIC, str(n), "40") for n in range(PARTITIONS)}
        assert {row[7] for row in offsets} == {"/127.0.0.1"}
        (of_member,) = rows(group_id, run("--describe", "--group", group_id, "--members", "--verbose"))
        assert of_member[3:5] == ["reader", str(PARTITIONS)]
        (state,) = rows(group_id, run("--describe", "--group", group_id, "--state"))
        assert state[-2:] == ["Stable", "1"]
        refused = run("--reset-offsets", "--group", group_id, "--all-topics", "--to-earliest", "--execute")
        assert "can only be reset if the group" in refused
        member.leave()


def test_every_form_of_reset_is_a_change(run: Run, client: Client, group_id: str) -> None:
    commit_all(client, group_id)

    def reset(*form: str, topic: str = TOPIC) -> dict[str, str]:
        printed = run("--reset-offsets", "--group", group_id, "--topic", topic, *form)
        return {row[2]: row[3] for row in rows(group_id, printed)}

    assert reset("--shift-by", "-10", "--dry-run") == dict.fromkeys(COMMITTED, "30")
    assert described(run, group_id) == COMMITTED
    assert client.ok("GET", f"/v1/changes?group_id={group_id}")["changes"] == []

    execute = "--execute"
    assert reset("--shift-by", "-10", execute, topic=f"{TOPIC}:0") == {"0": "30"}
    assert reset("--to-earliest", execute, topic=f"{TOPIC}:1") == {"1": "0"}
    assert reset("--to-offset", "20", execute, topic=f"{TOPIC}:2") == {"2": "20"}
    assert reset("--to-latest", execute, topic=f"{TOPIC}:1,3") == {"1": "40", "3": "40"}
    assert reset("--to-current", execute, topic=f"{TOPIC}:4") == {"4": "40"}
    assert described(run, group_id) == {**COMMITTED, "0": "30", "2": "20"}
    changes = client.ok("GET", f"/v1/changes?group_id={group_id}")["changes"]
    assert [each["action"] for each in changes] == ["reset_offsets"] * 5


def test_exported_offsets_are_imported_and_undone(run: Run, client: Client, group_id: str, tmp_path: Path) -> None:
    commit_all(client, group_id)
    plan = tmp_path / "plan.csv"
    plan.write_text(run("--export", "--reset-offsets", "--group", group_id, "--all-topics", "--to-current"))
    assert len(plan.read_text().split()) == PARTITIONS

    run("--reset-offsets", "--group", group_id, "--all-topics", "--to-earliest", "--execute")
    assert offsets_of(client, group_id) == dict.fromkeys(COMMITTED, "0")
    run("--reset-offsets", "--group", group_id, "--from-file", str(plan), "--execute")
    assert offsets_of(client, group_id) == COMMITTED
    undo_newest(client, group_id)
    assert offsets_of(client, group_id) == dict.fromkeys(COMMITTED, "0")


def test_all_groups_are_reset(run: Run, client: Client, group_id: str) -> None:
    groups = [f"{group_id}-{number}" for number in range(2)]
    for each in groups:
        commit_all(client, each)
    run("--reset-offsets", "--all-groups", "--topic", f"{TOPIC}:5", "--to-offset", "3", "--execute")
    assert [offsets_of(client, each)["5"] for each in groups] == ["3", "3"]
    for each in groups:
        undo_newest(client, each)
    assert [offsets_of(client, each) for each in groups] == [COMMITTED] * 2


def test_reset_to_a_time_goes_by_the_log_ends_of_then(
    run: Run, tool: list[str], kafka_node: Node, client: Client, group_id: str
) -> None:
    topic = f"timed-{group_id}"
    put_topic(kafka_node, topic, 1)
    now = datetime.now(UTC)
    partition = {"topic": topic, "partition": 0}
    url = kafka_node.settings.database_url
    assert url is not None
    with closing(psycopg2.connect(psql_url(url.get_secret_value()))) as connection:
        present = {"log_end_offset": 900, "reported_at": now, "first_reported_at": now - timedelta(days=3)}
        insert(connection, "log_end_offsets", {**partition, **present})
        for days, end in ((3, 100), (1, 500)):
            insert(
                connection, "log_end_history", {**partition, "at": now - timedelta(days=days), "log_end_offset": end}
            )

    def reset(*form: str) -> list[str]:
        return [row[3] for row in rows(group_id, run("--reset-offsets", "--group", group_id, "--topic", topic, *form))]

    assert reset("--by-duration", "P2D", "--dry-run") == ["100"]
    moment = (now - timedelta(hours=12)).strftime("%Y-%m-%dT%H:%M:%S.000")
    assert reset("--to-datetime", moment, "--execute") == ["500"]
    assert offsets_of(client, group_id) == {"0": "500"}
    command = [*tool, "--bootstrap-server", kafka_node.settings.kafka_address, "--reset-offsets", "--group", group_id]
    older = [*command, "--topic", topic, "--by-duration", "P30D", "--execute"]
    refused = subprocess.run(older, capture_output=True, text=True, check=False, timeout=300)
    assert "timestamp" in refused.stdout + refused.stderr
    assert offsets_of(client, group_id) == {"0": "500"}


def test_deletions_are_changes_and_are_undone(run: Run, client: Client, group_id: str) -> None:
    commit_all(client, group_id)
    assert "Successful" in run("--delete-offsets", "--group", group_id, "--topic", f"{TOPIC}:4")
    assert offsets_of(client, group_id) == {key: "40" for key in COMMITTED if key != "4"}
    undo_newest(client, group_id)
    assert offsets_of(client, group_id) == COMMITTED

    assert "successful" in run("--delete", "--group", group_id)
    assert group_id not in run("--list")
    undo_newest(client, group_id)
    assert described(run, group_id) == COMMITTED


@pytest.mark.peers
@pytest.mark.parametrize("library", PEERS)
def test_members_of_other_languages_are_described(
    library: str, run: Run, kafka_node: Node, group_id: str, tmp_path: Path
) -> None:
    skip_without(library, tmp_path)
    with kafka_members(tmp_path, kafka_node.settings.kafka_address) as members:
        member = members.join(library, group_id, TOPIC, client_id="reader", session_timeout_ms=PATIENT_MS)
        member.wait_until(lambda member: member.owned() == ALL)
        (row,) = rows(group_id, run("--describe", "--group", group_id, "--members", "--verbose"))
        _, member_id, host, client_id, partitions, *_ = row
        assert member_id.startswith("reader-")
        assert (host, client_id, partitions) == ("/127.0.0.1", "reader", str(PARTITIONS))
