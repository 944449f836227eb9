"""Requests of Kafka's group APIs as bytes, and the few fields that a benchmark reads of the responses.

The versions are fixed: those that Kafka 4.1 serves and that have no tagged fields. A connection has one request in
flight, so all requests have the same correlation id.

Source: the Kafka protocol guide and the message schemas of Kafka 4.1.
"""

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from bench.closed_loop import IsAnswered

CLIENT_ID: Final = "bench"
CORRELATION_ID: Final = 1
LENGTH_BYTES: Final = 4
NO_ERROR: Final = 0


@dataclass(frozen=True, slots=True)
class Api:
    """An API in one version."""

    key: int
    version: int


OFFSET_COMMIT: Final = Api(8, 6)
FIND_COORDINATOR: Final = Api(10, 2)
JOIN_GROUP: Final = Api(11, 3)
HEARTBEAT: Final = Api(12, 2)
SYNC_GROUP: Final = Api(14, 2)
CREATE_TOPICS: Final = Api(19, 4)


# -- requests --------------------------------------------------------------------------------------------


def create_topic(name: str, partitions: int, timeout_ms: int) -> bytes:
    """Return a CreateTopics request for one topic with one replica."""
    topic = _string(name) + struct.pack(">ih", partitions, 1) + _array([]) + _array([])
    return _request(CREATE_TOPICS, _array([topic]) + struct.pack(">i?", timeout_ms, False))


def find_coordinator(group_id: str) -> bytes:
    """Return a FindCoordinator request."""
    return _request(FIND_COORDINATOR, _string(group_id) + struct.pack(">b", 0))


def join_group(
    group_id: str, member_id: str, protocol: str, metadata: bytes, session_timeout_ms: int, rebalance_timeout_ms: int
) -> bytes:
    """Return a JoinGroup request of a consumer; without a member id, version 3 gives it one at once."""
    timeouts = struct.pack(">ii", session_timeout_ms, rebalance_timeout_ms)
    protocols = _array([_string(protocol) + _bytes(metadata)])
    return _request(JOIN_GROUP, _string(group_id) + timeouts + _string(member_id) + _string("consumer") + protocols)


def sync_group(group_id: str, generation: int, member_id: str, assignments: Iterable[tuple[str, bytes]]) -> bytes:
    """Return a SyncGroup request."""
    entries = [_string(assigned_id) + _bytes(assignment) for assigned_id, assignment in assignments]
    return _request(SYNC_GROUP, _member(group_id, generation, member_id) + _array(entries))


def heartbeat(group_id: str, generation: int, member_id: str) -> bytes:
    """Return a Heartbeat request."""
    return _request(HEARTBEAT, _member(group_id, generation, member_id))


def offset_commit(group_id: str, generation: int, member_id: str, topic: str, offsets: Iterable[int]) -> bytes:
    """Return an OffsetCommit request with an offset for each partition from 0 on."""
    partitions = [struct.pack(">iqi", partition, offset, -1) + _string("m") for partition, offset in enumerate(offsets)]
    topics = _array([_string(topic) + _array(partitions)])
    return _request(OFFSET_COMMIT, _member(group_id, generation, member_id) + topics)


# -- responses -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Joined:
    """The beginning of a JoinGroup response; the members, which a leader is given, are not read."""

    error: int
    generation: int
    leader_id: str
    member_id: str


def heartbeat_response() -> bytes:
    """Return the whole response to a heartbeat without an error."""
    return _response(struct.pack(">ih", 0, NO_ERROR))


def offset_commit_response(topic: str, partitions: int) -> bytes:
    """Return the whole response to an OffsetCommit without an error."""
    entries = [struct.pack(">ih", partition, NO_ERROR) for partition in range(partitions)]
    return _response(struct.pack(">i", 0) + _array([_string(topic) + _array(entries)]))


def read_error(response: bytes) -> int:
    """Return the error of a response that begins with throttle time and error: FindCoordinator, SyncGroup."""
    error: int = struct.unpack_from(">h", response, 12)[0]
    return error


def read_joined(response: bytes) -> Joined:
    """Return the beginning of a JoinGroup response."""
    error, generation = struct.unpack_from(">hi", response, 12)
    strings = []
    at = 18
    for _ in ("protocol", "leader", "member id"):
        (length,) = struct.unpack_from(">h", response, at)
        at += 2 + length
        strings.append(response[at - length : at].decode())
    return Joined(error, generation, *strings[1:])


def is_complete(received: bytes) -> bool:
    """Return whether a response has arrived."""
    return len(received) >= LENGTH_BYTES and len(received) - LENGTH_BYTES >= int.from_bytes(received[:LENGTH_BYTES])


def is_exactly(response: bytes) -> IsAnswered:
    """Return a function that accepts this response only."""

    def is_answered(received: bytes) -> bool:
        assert received == response or not is_complete(received), received
        return received == response

    return is_answered


# -- the protocol's types --------------------------------------------------------------------------------


def _request(api: Api, body: bytes) -> bytes:
    return _bytes(struct.pack(">hhi", api.key, api.version, CORRELATION_ID) + _string(CLIENT_ID) + body)


def _response(body: bytes) -> bytes:
    return _bytes(struct.pack(">i", CORRELATION_ID) + body)


def _member(group_id: str, generation: int, member_id: str) -> bytes:
    return _string(group_id) + struct.pack(">i", generation) + _string(member_id)


def _string(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack(">h", len(encoded)) + encoded


def _bytes(content: bytes) -> bytes:
    return struct.pack(">i", len(content)) + content


def _array(entries: list[bytes]) -> bytes:
    return struct.pack(">i", len(entries)) + b"".join(entries)
