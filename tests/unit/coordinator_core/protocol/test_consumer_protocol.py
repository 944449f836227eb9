"""Bytes of Kafka's "consumer" protocol type are read as clients write them, or are unreadable.

Source: Kafka's ``ConsumerProtocolSubscription.json`` and ``ConsumerProtocolAssignment.json``.
"""

import tracemalloc
from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from coordinator_core.protocol.consumer_protocol import (
    Assignment,
    Subscription,
    TopicPartitions,
    Unreadable,
    partitions_of,
    read_assignment,
    read_subscription,
    topics_of,
    write_assignment,
    write_subscription,
)

unhurried = settings(derandomize=True, database=None, max_examples=150)

topics = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
int32s = st.integers(-(2**31), 2**31 - 1)
of_topics = st.lists(st.builds(TopicPartitions, topics, st.lists(int32s, max_size=4).map(tuple)), max_size=4).map(tuple)
user_data = st.none() | st.binary(max_size=8)
assignments = st.builds(Assignment, of_topics, user_data)
subscriptions = st.builds(
    Subscription,
    st.lists(topics, max_size=4).map(tuple),
    of_topics,
    user_data,
    st.integers(-1, 2**31 - 1),
    st.none() | topics,
)

# -- there and back -----------------------------------------------------------------------------------------


@unhurried
@given(subscriptions)
def test_a_subscription_is_read_as_it_was_written(subscription: Subscription) -> None:
    assert read_subscription(write_subscription(subscription)) == subscription


@unhurried
@given(assignments)
def test_an_assignment_is_read_as_it_was_written(assignment: Assignment) -> None:
    assert read_assignment(write_assignment(assignment)) == assignment


def test_a_subscription_is_written_in_the_oldest_version_that_holds_it() -> None:
    versions = [
        write_subscription(one)[:2]
        for one in (Subscription(("t",)), Subscription(("t",), generation=0), Subscription(("t",), rack="r"))
    ]
    assert versions == [b"\0\1", b"\0\2", b"\0\3"]


# -- as Kafka's clients write it ------------------------------------------------------------------------------

ORDERS = b"\x00\x06orders"
NO_DATA = b"\xff\xff\xff\xff"
NO_PARTITIONS = b"\0\0\0\0"


@pytest.mark.parametrize(
    ("data", "subscription"),
    [
        (b"\0\0" + b"\0\0\0\1" + ORDERS + NO_DATA, Subscription(("orders",))),
        (b"\0\0" + b"\0\0\0\1" + ORDERS + b"\0\0\0\2hi", Subscription(("orders",), user_data=b"hi")),
        (
            b"\0\1" + b"\0\0\0\1" + ORDERS + NO_DATA + b"\0\0\0\1" + ORDERS + b"\0\0\0\2\0\0\0\0\0\0\0\3",
            Subscription(("orders",), (TopicPartitions("orders", (0, 3)),)),
        ),
        (b"\0\1" + b"\0\0\0\1" + ORDERS + NO_DATA, Subscription(("orders",))),
        (b"\0\2" + b"\0\0\0\0" + NO_DATA + b"\0\0\0\0" + b"\0\0\0\7", Subscription((), generation=7)),
        (
            b"\0\3" + b"\0\0\0\0" + NO_DATA + b"\0\0\0\0" + b"\0\0\0\7" + b"\0\1r",
            Subscription((), generation=7, rack="r"),
        ),
        (
            b"\0\3" + b"\0\0\0\0" + NO_DATA + b"\0\0\0\0" + b"\0\0\0\7" + b"\xff\xff",
            Subscription((), generation=7),
        ),
        (
            b"\0\x09" + b"\0\0\0\0" + NO_DATA + b"\0\0\0\0" + b"\0\0\0\7" + b"\xff\xff" + b"whatever comes",
            Subscription((), generation=7),
        ),
        (b"\0\0" + NO_DATA + NO_DATA, Subscription(())),
    ],
    ids=[
        "v0",
        "v0 with user data",
        "v1",
        "v1 of sarama-cluster",
        "v2",
        "v3",
        "v3 without a rack",
        "a later version",
        "null topics",
    ],
)
def test_a_subscription_of_any_version_is_read(data: bytes, subscription: Subscription) -> None:
    assert read_subscription(data) == subscription
    assert topics_of(data) == frozenset(subscription.topics)


def test_missing_assignment_is_read_as_empty() -> None:
    data = b"\0\0" + b"\0\0\0\1" + ORDERS + b"\0\0\0\2\0\0\0\0\0\0\0\3" + NO_DATA
    assert read_assignment(data) == Assignment((TopicPartitions("orders", (0, 3)),))
    assert read_assignment(b"") == Assignment(())
    assert partitions_of(b"") == ()


# -- anything else ------------------------------------------------------------------------------------------


def attempt(read: Callable[[bytes], object], data: bytes) -> None:
    """Read bytes that may be anything; whatever but `Unreadable` comes out of it fails the test."""
    with suppress(Unreadable):
        read(data)


HUGE = b"\x7f\xff\xff\xff"


@unhurried
@given(st.binary(max_size=60))
@example(b"\0\0" + HUGE)
@example(b"\0\1" + b"\0\0\0\1" + ORDERS + HUGE)
@example(b"\0\0" + b"\0\0\0\1" + b"\0\2\xff\xfe" + NO_DATA)
@example(b"\x80\0")
def test_any_bytes_are_read_or_unreadable(data: bytes) -> None:
    attempt(read_subscription, data)
    attempt(read_assignment, data)
    assert topics_of(data) is None or isinstance(topics_of(data), frozenset)
    assert partitions_of(data) is None or isinstance(partitions_of(data), tuple)


@unhurried
@given(subscriptions, st.data())
def test_a_truncated_subscription_is_unreadable(subscription: Subscription, draw: st.DataObject) -> None:
    """But for one without the fields after version 0."""
    data = write_subscription(subscription)
    with_no_partitions = write_subscription(Subscription(subscription.topics, user_data=subscription.user_data))
    end_of_version_0 = len(with_no_partitions) - len(NO_PARTITIONS)
    cut = draw.draw(st.integers(0, len(data) - 1).filter(lambda cut: cut != end_of_version_0))
    with pytest.raises(Unreadable):
        read_subscription(data[:cut])


@unhurried
@given(subscriptions, st.data())
def test_topics_are_known_from_the_fields_of_version_0(subscription: Subscription, draw: st.DataObject) -> None:
    data = write_subscription(subscription)
    with_no_partitions = write_subscription(Subscription(subscription.topics, user_data=subscription.user_data))
    cut = draw.draw(st.integers(0, len(data)))
    is_prefix_there = cut >= len(with_no_partitions) - len(NO_PARTITIONS)
    assert topics_of(data[:cut]) == (frozenset(subscription.topics) if is_prefix_there else None)


@pytest.mark.parametrize("version", [b"\0\0", b"\0\1", b"\0\3", b"\0\x09"])
def test_topics_are_read_if_fields_of_later_versions_are_missing(version: bytes) -> None:
    assert topics_of(version + b"\0\0\0\1" + ORDERS + NO_DATA) == frozenset({"orders"})


@pytest.mark.parametrize("data", [b"", b"\0", b"\xff\xff\0\0\0\1" + ORDERS + NO_DATA, b"\0\1\0\0\0\1" + ORDERS])
def test_topics_are_unknown_if_the_fields_of_version_0_are_unreadable(data: bytes) -> None:
    assert topics_of(data) is None


@unhurried
@given(assignments.map(write_assignment), st.data())
def test_a_truncated_assignment_is_unreadable(data: bytes, draw: st.DataObject) -> None:
    cut = draw.draw(st.integers(1, len(data) - 1))
    assert partitions_of(data[:cut]) is None


@unhurried
@given(subscriptions.map(write_subscription), st.integers(0, 10_000), st.integers(0, 255))
def test_a_damaged_subscription_is_read_or_unreadable(data: bytes, where: int, what: int) -> None:
    damaged = bytearray(data)
    damaged[where % len(data)] = what
    attempt(read_subscription, bytes(damaged))


@pytest.mark.parametrize(
    "data",
    [
        b"\0\0" + HUGE + b"\0" * 20,
        b"\0\1" + b"\0\0\0\0" + HUGE,
        b"\0\1" + b"\0\0\0\0" + NO_DATA + HUGE + b"\0" * 20,
        b"\0\1" + b"\0\0\0\0" + NO_DATA + b"\0\0\0\1" + ORDERS + HUGE + b"\0" * 20,
        b"\0\0" + b"\0\0\0\1" + b"\x7f\xff" + b"x" * 20,
    ],
    ids=["topics", "user data", "owned topics", "owned partitions", "a string"],
)
def test_an_excessive_array_length_allocates_no_memory(data: bytes) -> None:
    tracemalloc.start()
    try:
        attempt(read_subscription, data)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 100_000


def test_topics_with_nul_are_unreadable_as_postgres_does_not_store_them() -> None:
    assert topics_of(write_subscription(Subscription(("a\0b",)))) is None
    assert partitions_of(write_assignment(Assignment((TopicPartitions("a\0b", (1,)),)))) is None
