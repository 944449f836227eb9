"""Conversion of subscriptions and assignments between JSON and Kafka's bytes, in both directions."""

from base64 import b64encode

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.http.consumer_json import (
    AssignmentJson,
    Base64Members,
    SubscriptionJson,
    assignment_bytes,
    assignment_json,
    subscription_bytes,
    subscription_json,
)
from coordinator_core.protocol.consumer_protocol import (
    CONSUMER,
    Subscription,
    TopicPartitions,
    write_subscription,
)
from coordinator_core.protocol.errors import InvalidRequest

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=20)
partitions = st.lists(
    st.fixed_dictionaries({"topic": texts, "partitions": st.lists(st.integers(0, 2**31 - 1), max_size=5)}), max_size=3
)
user_data = st.none() | st.binary(max_size=20).map(lambda data: b64encode(data).decode())
subscriptions = st.fixed_dictionaries(
    {"topics": st.lists(texts, max_size=3), "owned_partitions": partitions, "user_data": user_data},
    optional={"generation": st.integers(0, 2**31 - 1), "rack": texts},
)
assignments = st.fixed_dictionaries({"partitions": partitions, "user_data": user_data})


@given(subscriptions)
def test_subscription_is_returned_as_sent(sent: dict[str, object]) -> None:
    data = subscription_bytes("metadata", msgspec.convert(sent, SubscriptionJson), CONSUMER)

    shown = subscription_json(data, as_json=True)

    if "rack" in sent and "generation" not in sent:
        sent = sent | {"generation": -1}  # Kafka's bytes with a rack have room for a generation
    assert {"generation": -1, **msgspec.to_builtins(shown)} == {"generation": -1, **sent}


@given(assignments)
def test_assignment_is_returned_as_sent(sent: dict[str, object]) -> None:
    data = assignment_bytes("assignment", msgspec.convert(sent, AssignmentJson))

    assert msgspec.to_builtins(assignment_json(data, as_json=True)) == sent


@given(st.binary(max_size=60))
def test_bytes_are_returned_as_sent(data: bytes) -> None:
    encoded = b64encode(data).decode()

    assert subscription_bytes("metadata", encoded, "connect") == data
    assert subscription_json(data, as_json=False) == encoded
    assert assignment_json(data, as_json=False) == encoded


@given(st.binary(max_size=60))
def test_bytes_are_shown_as_json_or_as_base64_and_never_fail(data: bytes) -> None:
    for shown in (subscription_json(data, as_json=True), assignment_json(data, as_json=True)):
        assert not isinstance(shown, str) or shown == b64encode(data).decode()


def test_minimal_subscription_is_encoded_as_version_1() -> None:
    data = subscription_bytes("metadata", SubscriptionJson(["a"]), CONSUMER)

    assert data == bytes.fromhex("0001 00000001 000161 ffffffff 00000000")


def test_no_assignment_is_an_empty_one() -> None:
    assert msgspec.to_builtins(assignment_json(b"", as_json=True)) == {"partitions": [], "user_data": None}


@pytest.mark.parametrize("topic", ["a\0", "x" * 250])
@pytest.mark.parametrize("place", ["subscribed", "subscribed, and no owned partitions follow", "owned"])
def test_bytes_with_an_unstorable_topic_name_are_rejected(topic: str, place: str) -> None:
    is_owned = place == "owned"
    subscription = Subscription(() if is_owned else (topic,), (TopicPartitions(topic, (0,)),) if is_owned else ())
    poisoned = write_subscription(subscription)
    if place.endswith("follow"):
        poisoned = poisoned.removesuffix(b"\0\0\0\0")

    with pytest.raises(InvalidRequest, match="metadata: names a topic"):
        subscription_bytes("metadata", b64encode(poisoned).decode(), CONSUMER)
    assert subscription_bytes("metadata", b64encode(poisoned).decode(), "connect") == poisoned


def test_only_the_latest_opaque_readers_are_remembered() -> None:
    readers = Base64Members(limit=2)
    for member_id in ("m-1", "m-2", "m-1", "m-3"):
        readers.record("g", member_id, uses_base64=True)

    assert [("g", member_id) in readers for member_id in ("m-1", "m-2", "m-3")] == [True, False, True]
    readers.record("g", "m-1", uses_base64=False)
    assert ("g", "m-1") not in readers
