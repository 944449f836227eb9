"""Kafka's requests and responses as bytes, written by hand from the message schemas of the protocol."""

import pytest

from bench import kafka_wire
from bench.kafka_wire import Joined

# Request header, version 1: api_key int16, api_version int16, correlation_id int32, client_id nullable string.
CLIENT = "00000001 0005 62656e6368"  # correlation id 1, "bench"
GROUP = "0001 67"  # "g"
MEMBER = "0001 6d"  # "m"
TOPIC = "0001 74"  # "t"
GENERATION = "00000007"
THROTTLE = "00000000"


def framed(*fields: str) -> bytes:
    """Return fields in hexadecimal as bytes behind their length, an int32."""
    body = bytes.fromhex(" ".join(fields))
    return len(body).to_bytes(4) + body


def test_heartbeat() -> None:
    request = framed("000c 0002", CLIENT, GROUP, GENERATION, MEMBER)
    assert kafka_wire.heartbeat("g", 7, "m") == request
    assert kafka_wire.heartbeat_response() == framed("00000001", THROTTLE, "0000")


def test_offset_commit() -> None:
    first = "00000000 0000000000000005 ffffffff 0001 6d"  # partition, offset, leader epoch, metadata "m"
    second = "00000001 0000000000000006 ffffffff 0001 6d"
    topics = f"00000001 {TOPIC} 00000002 {first} {second}"
    request = framed("0008 0006", CLIENT, GROUP, GENERATION, MEMBER, topics)
    assert kafka_wire.offset_commit("g", 7, "m", "t", [5, 6]) == request
    response = framed("00000001", THROTTLE, f"00000001 {TOPIC} 00000002 00000000 0000 00000001 0000")
    assert kafka_wire.offset_commit_response("t", 2) == response


def test_join_group() -> None:
    timeouts = "0000ea60 0001d4c0"  # session 60,000 ms, rebalance 120,000 ms
    protocols = "00000001 0005 72616e6765 00000002 abcd"  # one: "range", two bytes of metadata
    request = framed("000b 0003", CLIENT, GROUP, timeouts, "0000", "0008 636f6e73756d6572", protocols)
    assert kafka_wire.join_group("g", "", "range", b"\xab\xcd", 60_000, 120_000) == request


def test_sync_group() -> None:
    assignments = f"00000002 {MEMBER} 00000002 abcd 0001 6e 00000000"
    request = framed("000e 0002", CLIENT, GROUP, GENERATION, MEMBER, assignments)
    assert kafka_wire.sync_group("g", 7, "m", [("m", b"\xab\xcd"), ("n", b"")]) == request


def test_find_coordinator() -> None:
    assert kafka_wire.find_coordinator("g") == framed("000a 0002", CLIENT, GROUP, "00")


def test_create_topic() -> None:
    topic = f"{TOPIC} 00000064 0001 00000000 00000000"  # partitions, replicas, no assignments, no configs
    request = framed("0013 0004", CLIENT, "00000001", topic, "00007530", "00")
    assert kafka_wire.create_topic("t", 100, timeout_ms=30_000) == request


def test_joined_is_read_up_to_the_member_id() -> None:
    names = f"0005 72616e6765 0006 6c6561646572 {MEMBER}"  # protocol, leader, member id
    members = "00000001 0006 6c6561646572 00000002 abcd"
    response = framed("00000001", THROTTLE, "0000", GENERATION, names, members)
    assert kafka_wire.read_joined(response) == Joined(0, 7, "leader", "m")


def test_error_is_read_behind_the_throttle_time() -> None:
    assert kafka_wire.read_error(framed("00000001", THROTTLE, "001b", "00000000")) == 27


def test_only_the_expected_response_is_accepted() -> None:
    response = kafka_wire.heartbeat_response()
    is_answered = kafka_wire.is_exactly(response)
    assert [is_answered(response[:length]) for length in (0, 3, 4, len(response) - 1)] == [False] * 4
    assert is_answered(response)
    with pytest.raises(AssertionError, match="x19"):
        is_answered(framed("00000001", THROTTLE, "0019"))
