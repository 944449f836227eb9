"""Lists that announce more items than their frame can have are refused before memory is reserved for them."""

import subprocess
import sys
from collections.abc import Mapping

import pytest
from kio.index import load_request_schema

from api.kafka.apis import ApiKey
from api.kafka.list_lengths import MalformedFrame, check_lists
from api.kafka.messages import decode
from tests.unit.api.kafka import damaged_frames
from tests.unit.api.kafka.damaged_frames import MAX_ITEMS


@pytest.mark.parametrize("values", [damaged_frames.VALUES, damaged_frames.NEGATIVE], ids=["ordinary", "negative"])
def test_requests_of_all_versions_are_decoded(values: Mapping[str, object]) -> None:
    for key, version, message, body in damaged_frames.requests(values):
        assert decode(key, version, body, 0, MAX_ITEMS) == message
        assert decode(key, version, b"head" + body + b"rest", 4, MAX_ITEMS) == message


def test_huge_number_at_no_place_of_a_request_ends_the_process() -> None:
    found = subprocess.run(
        [sys.executable, "-m", damaged_frames.__name__], check=False, capture_output=True, text=True, timeout=300
    )

    assert found.returncode == 0, found.stderr[-2000:]
    assert "'decoded'" in found.stdout


@pytest.mark.parametrize(
    ("version", "body"),
    [
        (9, b"\xfe\xff\xff\xff\x0f"),
        (9, b"\x05\0\0\0"),
        (9, b"\x80\x80\x80\x80\x80\x00"),
        (1, b"\x7f\xff\xff\xff"),
        (1, b"\0\0\0\2\0"),
        (1, b"\0\0"),
    ],
)
def test_list_longer_than_its_request_is_refused(version: int, body: bytes) -> None:
    with pytest.raises(MalformedFrame):
        check_lists(load_request_schema(ApiKey.METADATA, version), body, 0, MAX_ITEMS)


def test_null_list_that_may_not_be_null_is_refused() -> None:
    with pytest.raises(MalformedFrame, match="null"):
        check_lists(load_request_schema(ApiKey.METADATA, 0), b"\xff" * 4, 0, MAX_ITEMS)
    check_lists(load_request_schema(ApiKey.METADATA, 1), b"\xff" * 4, 0, MAX_ITEMS)


def test_items_of_all_lists_count_together() -> None:
    """Two topics of two partitions each are six items."""
    (body,) = [body for key, version, _, body in damaged_frames.requests() if (key, version) == (8, 8)]
    schema = load_request_schema(ApiKey.OFFSET_COMMIT, 8)

    check_lists(schema, body, 0, max_items=6)
    with pytest.raises(MalformedFrame, match="more than 5 items"):
        check_lists(schema, body, 0, max_items=5)


def test_bytes_behind_the_length_of_the_last_list_do_not_count() -> None:
    for key, version, _, body in damaged_frames.requests():
        schema = load_request_schema(key, version)
        end = check_lists(schema, body, 0, MAX_ITEMS)
        for place in range(end, len(body)):
            for byte in (b"\0", b"\x7f", b"\xff"):
                assert check_lists(schema, body[:place] + byte + body[place + 1 :], 0, MAX_ITEMS) == end
