"""A topic is named with its partitions, which are numbers."""

import pytest

from muster.cli.argument_parsing import topic_and_partitions
from muster.errors import USAGE_EXIT_CODE, UserError


@pytest.mark.parametrize("text", ["orders:1,x", "orders:1,", "orders:0-3", "orders:-1", "a:b:1 2"])
def test_partition_that_is_no_number_is_a_usage_error(text: str) -> None:
    with pytest.raises(UserError) as refusal:
        topic_and_partitions(text)
    assert refusal.value.sentence == f"--topic {text}: partitions are numbers, as in orders:0,1."
    assert refusal.value.exit_code == USAGE_EXIT_CODE


@pytest.mark.parametrize("topic", ["orders", "orders:x", "orders:", "a:b"])
def test_other_text_is_a_topic(topic: str) -> None:
    assert topic_and_partitions(topic) == {"topic": topic}
    assert topic_and_partitions(f"{topic}:0,1") == {"topic": topic, "partitions": [0, 1]}
