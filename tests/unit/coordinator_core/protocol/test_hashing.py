"""A group's shard is Kafka's partition of it. Source: protocol.md section 4."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator_core.protocol.hashing import java_hash, shard_of


@pytest.mark.parametrize(
    ("group_id", "shard"),
    [
        ("mykafka-group_4", 37),
        ("test-consumer-group", 31),
        ("console-consumer-1", 24),
        ("polygenelubricants", 0),
        ("", 0),
    ],
)
def test_shard_of_a_group_equals_kafka_s_partition(group_id: str, shard: int) -> None:
    assert shard_of(group_id, 50) == shard


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99162322),
        ("polygenelubricants", -(2**31)),
        ("Grüße", 69215351),
        ("😀", 1772899),
        ("\ud83d", 0xD83D),
    ],
)
def test_a_hash_is_java_s(text: str, value: int) -> None:
    """Over UTF-16 code units; the last one is half a character."""
    assert java_hash(text) == value


@settings(derandomize=True, database=None, max_examples=200)
@given(st.text(max_size=40), st.integers(1, 10_000))
def test_every_group_has_a_shard(group_id: str, shards: int) -> None:
    assert 0 <= shard_of(group_id, shards) < shards
