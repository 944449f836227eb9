"""Requests that Kafka accepts and kio refuses are decoded all the same."""

import struct
from collections.abc import Mapping
from dataclasses import fields
from datetime import timedelta

import pytest
from kio.index import load_request_schema

from api.kafka.apis import APIS, ApiKey
from api.kafka.lenient_decoding import LONGEST_MS, REWRITTEN_MAX_BYTES, rewritten
from api.kafka.list_lengths import MalformedFrame
from api.kafka.messages import decode, read_header
from tests.unit.api.kafka import damaged_frames
from tests.unit.api.kafka.damaged_frames import MAX_ITEMS

UNKNOWN_TAG = b"\x01\x63\x03abc"
"""Tagged fields: one, of tag 99, with three bytes."""


@pytest.mark.parametrize("values", [damaged_frames.VALUES, damaged_frames.NEGATIVE], ids=["ordinary", "negative"])
def test_what_kio_decodes_is_written_as_it_was(values: Mapping[str, object]) -> None:
    written = 0
    for key, version, _, body in damaged_frames.requests(values):
        schema = load_request_schema(key, version)
        if not any("tag" in each.metadata for each in fields(schema)):
            written += 1
            assert rewritten(schema, b"head" + body, 4) == body
    assert written > 50


def test_unknown_tagged_fields_are_ignored() -> None:
    decoded = 0
    for key, version, message, body in damaged_frames.requests():
        has_tags = any("tag" in each.metadata for each in fields(load_request_schema(key, version)))
        if version >= APIS[ApiKey(key)].flexible_from and not has_tags:
            decoded += 1
            assert body[-1] == 0, "there are no tagged fields"
            assert decode(key, version, body[:-1] + UNKNOWN_TAG, 0, MAX_ITEMS) == message
    assert decoded > 20


def test_unknown_tagged_fields_of_an_item_are_ignored() -> None:
    member = b"\x02m\x00" + UNKNOWN_TAG
    message = decode(ApiKey.LEAVE_GROUP, 4, b"\x02g\x03" + member + member + b"\x00", 0, MAX_ITEMS)
    assert (message.group_id, [each.member_id for each in message.members]) == ("g", ["m", "m"])


def test_bytes_that_are_no_text_are_replaced() -> None:
    partition = struct.pack(">iq", 0, 7) + b"\x00\x03a\xffb"
    body = b"\x00\x01\xfe" + struct.pack(">i", 1) + b"\x00\x00" + struct.pack(">q", -1) + struct.pack(">i", 1)
    body += b"\x00\x01t" + struct.pack(">i", 1) + partition
    message = decode(ApiKey.OFFSET_COMMIT, 2, body, 0, MAX_ITEMS)
    (committed,) = message.topics[0].partitions
    assert (message.group_id, committed.committed_metadata) == ("\ufffd", "a\ufffdb")

    header = read_header(struct.pack(">hhih", ApiKey.HEARTBEAT, 0, 1, 1) + b"\xff")
    assert header.client_id == "\ufffd"


def test_compact_text_may_become_longer_than_a_byte_can_say() -> None:
    """43 bytes become 129, and the length of one byte a length of two."""
    body = b"\x2c" + b"\xff" * 43 + struct.pack(">i", 1) + b"\x02m\x00\x00"
    message = decode(ApiKey.HEARTBEAT, 4, body, 0, MAX_ITEMS)
    assert (message.group_id, message.member_id) == ("\ufffd" * 43, "m")


def test_boolean_is_true_unless_it_is_0() -> None:
    groups = struct.pack(">i", 1) + b"\x00\x01g"
    asked = [
        decode(ApiKey.DESCRIBE_GROUPS, 4, groups + byte, 0, MAX_ITEMS).include_authorized_operations
        for byte in (b"\x00", b"\x02", b"\xff")
    ]
    assert asked == [False, True, True]


@pytest.mark.parametrize(("sent_ms", "kept_ms"), [(2**63 - 1, LONGEST_MS), (-(2**63), -LONGEST_MS), (7, 7)])
def test_time_is_at_most_the_longest(sent_ms: int, kept_ms: int) -> None:
    body = b"\x00\x01g" + struct.pack(">i", 1) + b"\x00\x00" + struct.pack(">q", sent_ms) + struct.pack(">i", 0)
    message = decode(ApiKey.OFFSET_COMMIT, 4, body, 0, MAX_ITEMS)
    assert message.retention_time == timedelta(milliseconds=kept_ms)


def test_of_a_large_request_only_what_precedes_its_lists_is_written_again() -> None:
    def commit(metadata: bytes) -> bytes:
        partition = struct.pack(">iqh", 0, 7, len(metadata)) + metadata
        head = b"\x00\x01\xff" + struct.pack(">ihq", 1, 0, 2**63 - 1)
        topics = struct.pack(">ihsi", 1, 1, b"t", 3_000) + partition * 3_000
        return head + topics

    body = commit(b"x" * 20)
    assert len(body) > REWRITTEN_MAX_BYTES
    message = decode(ApiKey.OFFSET_COMMIT, 4, body, 0, 5_000)
    assert (message.group_id, message.retention_time) == ("\ufffd", timedelta(milliseconds=LONGEST_MS))
    with pytest.raises(MalformedFrame):
        decode(ApiKey.OFFSET_COMMIT, 4, commit(b"\xff" * 20), 0, 5_000)


@pytest.mark.parametrize("body", [b"\x02", b"\x02g\x00\x00", b"\x02g\x00\x00\x00\x01\x02m\x00\x01\x63\x09abc"])
def test_body_that_is_cut_off_is_refused(body: bytes) -> None:
    with pytest.raises(MalformedFrame):
        decode(ApiKey.HEARTBEAT, 4, body, 0, MAX_ITEMS)
