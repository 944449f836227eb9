"""While its database is away a node does not know what is committed, and no client takes that for no offset."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from sqlalchemy import make_url

from tests.support.go_members import GO_LIBRARIES
from tests.support.http_client import Client, fresh_id
from tests.support.kafka_listener import PARTITIONS, TOPIC
from tests.support.kafka_members import KafkaMember, kafka_members
from tests.support.peers import LIBRARIES, skip_without
from tests.support.ports import free_ports
from tests.support.waiting import poll_until
from tests.system.chaos.link import Link
from tests.system.kafka_faults.cluster import ClusterNode

pytestmark = [pytest.mark.slow]

ALL: Final = {(TOPIC, partition) for partition in range(PARTITIONS)}
PATIENT_MS: Final = 45_000
"""A session timeout that no member misses while the database is away."""
WITH_READS: Final = [each for each in LIBRARIES if getattr(each, "values", (each,))[0] not in GO_LIBRARIES]
"""The members in Go have no command to read committed offsets."""


@pytest.fixture
def link(database_url: str) -> Iterator[Link]:
    """Pass the bytes of the node's connections on to its database."""
    port = make_url(database_url).port
    assert port is not None, "it is one of the embedded Postgres"
    with Link(port).running() as link:
        yield link


@pytest.fixture
def node(database_url: str, link: Link, tmp_path: Path) -> Iterator[ClusterNode]:
    url = make_url(database_url).set(port=link.port).render_as_string(hide_password=False)
    node = ClusterNode(tmp_path, url, *free_ports(2))
    node.start()
    try:
        node.wait_until_ready()
        client = Client(node.url)
        client.ok("PUT", f"/v1/topics/{TOPIC}", {"partitions": PARTITIONS})
        client.close()
        yield node
    finally:
        node.stop()


@pytest.mark.parametrize("library", WITH_READS)
def test_no_offset_seems_absent(library: str, node: ClusterNode, link: Link, tmp_path: Path) -> None:
    skip_without(library, tmp_path)
    group_id = fresh_id()
    with kafka_members(tmp_path, node.kafka_address) as members:
        member = members.join(library, group_id, TOPIC, client_id="reader", session_timeout_ms=PATIENT_MS)
        member.wait_until(lambda member: member.owned() == ALL)
        member.commit(7, "x")
        link.fall_silent()
        poll_until(lambda: not node.is_ready())
        member.send_read()
        poll_until(lambda: member.reads() or node.answered("OffsetFetch", "COORDINATOR_NOT_AVAILABLE"))
        link.restore()
        member.wait_until(KafkaMember.reads)
    assert member.reads() in [[dict.fromkeys(ALL, 7)], [None]]
