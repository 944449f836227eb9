"""Static and cooperative members of client libraries in other languages, and kcat, in groups of a node."""

import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.http_client import Client, Group
from tests.support.kafka_listener import PARTITIONS, TOPIC
from tests.support.kafka_members import kafka_members
from tests.support.nodes import Node
from tests.support.peers import skip_without
from tests.support.tools import program
from tests.support.waiting import PATIENCE_S, poll_until

pytestmark = [pytest.mark.slow, pytest.mark.peers]

ALL = {(TOPIC, partition) for partition in range(PARTITIONS)}
PATIENT_MS = 45_000
"""A session timeout that no member misses on a busy machine."""
COOPERATIVE = {
    "kafka-clients": {"partition_assignment_strategy": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"},
    "franz-go": {"assignor": "cooperative-sticky"},
}


@pytest.mark.parametrize("library", COOPERATIVE)
def test_cooperative_member_gives_up_only_what_another_one_gets(
    library: str, kafka_node: Node, group_id: str, tmp_path: Path
) -> None:
    skip_without(library, tmp_path)
    options = {"session_timeout_ms": PATIENT_MS, **COOPERATIVE[library]}
    with kafka_members(tmp_path, kafka_node.settings.kafka_address) as members:
        first = members.join(library, group_id, TOPIC, client_id="first", **options)
        first.wait_until(lambda member: member.owned() == ALL)
        second = members.join(library, group_id, TOPIC, client_id="second", **options)
        second.wait_until(lambda member: len(member.owned()) == PARTITIONS // 2)
        revoked = {
            (topic, partition)
            for event in first.events()
            if event["event"] == "revoked"
            for topic, partition in event["partitions"]
        }
        assert revoked == second.owned()
        assert first.owned() == ALL - revoked


@pytest.mark.parametrize("library", ["kafka-clients", "franz-go", "sarama"])
def test_static_member_restarts_without_rebalance(
    library: str, kafka_node: Node, group_id: str, tmp_path: Path
) -> None:
    skip_without(library, tmp_path)
    options = {"session_timeout_ms": PATIENT_MS}
    with kafka_members(tmp_path, kafka_node.settings.kafka_address) as members, closing(Client(kafka_node.url)) as http:
        for number in range(2):
            members.join(library, group_id, TOPIC, client_id=f"{number}", group_instance_id=f"host-{number}", **options)
        first, second = members.members
        poll_until(lambda: [len(each.owned()) for each in (first, second)] == [PARTITIONS // 2] * 2)
        group = Group(http, group_id)
        generation, owned = group.describe()["generation"], second.owned()
        second.kill()
        again = members.join(library, group_id, TOPIC, client_id="1", group_instance_id="host-1", **options)
        again.wait_until(lambda member: member.owned() == owned)
        assert group.describe()["generation"] == generation


def test_kcat_is_a_member(kafka_node: Node, group_id: str, tmp_path: Path) -> None:
    output = tmp_path / "kcat.err"
    command = [program("kcat"), "-b", kafka_node.settings.kafka_address, "-G", group_id, TOPIC]
    with output.open("w") as err, subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=err) as kcat:
        try:
            assigned = "assigned: " + ", ".join(f"{TOPIC} [{partition}]" for partition in range(PARTITIONS))
            poll_until(lambda: assigned in output.read_text())
        finally:
            kcat.terminate()
            kcat.wait(PATIENCE_S)
    with closing(Client(kafka_node.url)) as client:
        assert Group(client, group_id).describe()["state"] == "Empty", "kcat leaves when it ends"
