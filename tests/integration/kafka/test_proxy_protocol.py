"""Clients behind a proxy that sends the PROXY protocol: the node knows their addresses, and refuses all others."""

import struct
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
import structlog

from api.kafka.apis import ApiKey
from api.shared.proxy_protocol import SIGNATURE
from tests.support.certificates import Authority
from tests.support.databases import Databases
from tests.support.kafka_listener import PARTITIONS, TOPIC, join_alone, put_topic, wait_until_serving
from tests.support.kafka_members import kafka_members
from tests.support.kafka_wire import KafkaWire, frame
from tests.support.nodes import Node, running_kafka_node
from tests.support.ports import free_port
from tests.support.tools import program
from tests.support.waiting import PATIENCE_S, poll_until

CLIENT = "203.0.113.9"
ON: Mapping[str, str | int] = {
    "kafka_proxy_protocol": 1,
    "trusted_proxies": "127.0.0.1",
    "group_initial_rebalance_delay_ms": 0,
}
LOCAL = SIGNATURE + struct.pack(">BBH", 0x20, 0, 0)
HAPROXY = """
global
    maxconn 100
defaults
    mode tcp
    timeout connect 30s
    timeout client 5m
    timeout server 5m
listen kafka
    bind {address}
    server node {node} {option} check check-send-proxy inter 200ms
"""


def line(client: str) -> bytes:
    """Return a header of version 1."""
    return f"PROXY TCP4 {client} 192.0.2.1 50000 9092\r\n".encode()


@pytest.fixture(scope="module")
def node(databases: Databases) -> Iterator[Node]:
    url = databases.create()
    with running_kafka_node(url, **ON, max_connections_per_ip=1) as node:
        put_topic(node)
        wait_until_serving(node)
        yield node
    databases.drop(url)


def member_host(wire: KafkaWire, group_id: str) -> str:
    """Join a group as its only member, and return its address, before which Kafka has a slash."""
    join_alone(wire, group_id)
    return str(wire.call(ApiKey.DESCRIBE_GROUPS, 5, groups=(group_id,)).groups[0].members[0].client_host)


def test_client_is_whom_the_header_names(node: Node, group_id: str) -> None:
    version_2 = SIGNATURE + struct.pack(">BBH4s4sHH", 0x21, 0x11, 12, bytes((203, 0, 113, 9)), bytes(4), 50_000, 9_092)
    for number, header in enumerate((line(CLIENT), version_2)):
        with KafkaWire(node.settings.kafka_address, before=header) as wire:
            assert member_host(wire, f"{group_id}-{number}") == f"/{CLIENT}"


def test_header_without_a_client_leaves_the_address_of_the_proxy(node: Node, group_id: str) -> None:
    with KafkaWire(node.settings.kafka_address, before=LOCAL) as wire:
        assert member_host(wire, group_id) == "/127.0.0.1"


def test_connections_are_counted_by_client(node: Node) -> None:
    address = node.settings.kafka_address
    one, two = line("203.0.113.1"), line("203.0.113.2")
    with KafkaWire(address, before=one) as first, KafkaWire(address, before=two) as other:
        for wire in (first, other):
            assert wire.call(ApiKey.API_VERSIONS, 0).error_code == 0
        with KafkaWire(address, before=one) as second:
            assert second.is_closed()


REFUSED: Mapping[str, tuple[Mapping[str, str | int], bytes, str]] = {
    "no header": ({}, frame(ApiKey.API_VERSIONS, 0), "without a header"),
    "too slow": ({"handshake_timeout_ms": 100}, b"PROXY TCP4 ", "in time"),
    "not trusted": ({"trusted_proxies": "192.0.2.7"}, line(CLIENT), "no proxy of MUSTER_TRUSTED_PROXIES"),
}


@pytest.mark.parametrize(("options", "sent", "reason"), REFUSED.values(), ids=REFUSED)
def test_other_connections_are_closed_and_logged(
    options: Mapping[str, str | int], sent: bytes, reason: str, database_url: str
) -> None:
    with (
        running_kafka_node(database_url, **{**ON, **options}) as node,
        structlog.testing.capture_logs() as logged,
        KafkaWire(node.settings.kafka_address, before=sent) as wire,
    ):
        assert wire.is_closed()
        poll_until(lambda: any(each["event"] == "proxy_headers_refused" for each in logged))
    (event,) = [each for each in logged if each["event"] == "proxy_headers_refused"]
    assert reason in event["reason"]


def test_tls_follows_the_header(database_url: str, group_id: str, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    with (
        running_kafka_node(database_url, **ON, tls_certificate_file=str(authority.issue("node"))) as node,
        KafkaWire(node.settings.kafka_address, ssl_context=authority.trusted(), before=line(CLIENT)) as wire,
    ):
        poll_until(lambda: wire.call(ApiKey.FIND_COORDINATOR, 2, key=group_id, key_type=0).error_code == 0)
        assert member_host(wire, group_id) == f"/{CLIENT}"


@contextmanager
def haproxy(directory: Path, address: str, node: str, option: str) -> Iterator[None]:
    """Run HAProxy in front of a node until the block ends."""
    configuration = directory / "haproxy.cfg"
    configuration.write_text(HAPROXY.format(address=address, node=node, option=option))
    with subprocess.Popen([program("haproxy"), "-db", "-f", str(configuration)], stderr=subprocess.DEVNULL) as process:
        try:
            yield
        finally:
            process.terminate()
            process.wait(PATIENCE_S)


@pytest.mark.slow
@pytest.mark.peers
@pytest.mark.parametrize("option", ["send-proxy", "send-proxy-v2"])
def test_member_behind_haproxy(option: str, database_url: str, group_id: str, tmp_path: Path) -> None:
    port = free_port()
    with (
        running_kafka_node(database_url, **ON, kafka_advertised=f"127.0.0.1:{port}") as node,
        haproxy(tmp_path, f"127.0.0.1:{port}", f"127.0.0.1:{node.settings.kafka_port}", option),
        structlog.testing.capture_logs() as logged,
    ):
        put_topic(node)
        wait_until_serving(node)
        with kafka_members(tmp_path, node.settings.kafka_address) as members:
            member = members.join("kafka-python", group_id, TOPIC, client_id="one", session_timeout_ms=45_000)
            member.wait_until(lambda member: len(member.owned()) == PARTITIONS)
            member.commit(7, "a-note")
        with KafkaWire(node.settings.kafka_address, source_host="127.0.0.2") as wire:
            assert member_host(wire, f"{group_id}-2") == "/127.0.0.2"
    assert not [each for each in logged if each["event"] == "proxy_headers_refused"]
