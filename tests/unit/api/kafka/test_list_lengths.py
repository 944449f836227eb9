"""Lists that announce more items than their frame can have are refused before memory is reserved for them."""

import subprocess
import sys

import pytest
from kio.index import load_request_schema

from api.kafka.apis import ApiKey
from api.kafka.list_lengths import MalformedFrame, check_lists
from api.kafka.messages import decode
from tests.unit.api.kafka import damaged_frames


def test_requests_of_all_versions_are_decoded() -> None:
    for key, version, message, body in damaged_frames.requests():
        assert decode(key, version, body, 0) == message
        assert decode(key, version, b"head" + body + b"rest", 4) == message


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
        check_lists(load_request_schema(ApiKey.METADATA, version), body, 0)
