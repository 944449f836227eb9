"""Tagged fields of a request are limited in number: walking them takes the event loop."""

import struct

import pytest
from kio.index import load_request_schema

from api.kafka.apis import ApiKey
from api.kafka.list_lengths import MalformedFrame, check_lists
from api.kafka.messages import read_header

EMPTY_FIELD = b"\x63\x00"
"""A tagged field: its tag, and its size."""


def test_tagged_fields_are_limited_at_each_place() -> None:
    """A frame of 8 MiB has place for four million in its header, which would take seconds."""
    header = struct.pack(">hhih", ApiKey.HEARTBEAT, 4, 1, -1)

    assert read_header(header + b"\xe8\x07" + EMPTY_FIELD * 1_000).size == len(header) + 2_002
    with pytest.raises(MalformedFrame, match="more than 1000 tagged fields"):
        read_header(header + b"\xe9\x07" + EMPTY_FIELD * 1_001)


def test_tagged_fields_count_as_items() -> None:
    """Two groups with a topic each are four items; what follows the last list is not walked."""
    topic = b"\x02t\x01" + b"\x01" + EMPTY_FIELD
    group = b"\x02g\x02" + topic + b"\x00"
    schema, body = load_request_schema(ApiKey.OFFSET_FETCH, 8), b"\x03" + group + group + b"\x00\x00"

    check_lists(schema, body, 0, max_items=5)
    with pytest.raises(MalformedFrame, match="more than 4 items"):
        check_lists(schema, body, 0, max_items=4)
