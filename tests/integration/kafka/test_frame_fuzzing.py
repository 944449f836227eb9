"""Frames that are random, or valid ones with random changes: each costs its client one connection at most.

FUZZ_EXAMPLES in the environment is the number of frames of each API; without it, few are sent.
"""

import os
import struct
import typing
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

import pytest
import structlog
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kio.index import load_request_schema
from structlog.typing import EventDict

from api.kafka.apis import APIS, ApiKey
from tests.support.databases import Databases
from tests.support.kafka_listener import TOPIC, put_topic, wait_until_ready
from tests.support.kafka_wire import KafkaWire, frame, read_response
from tests.support.nodes import Node, running_kafka_node

EXAMPLES: Final = int(os.environ.get("FUZZ_EXAMPLES", "15"))
ANSWER_WAIT_S: Final = 0.1
"""How long an answer is waited for: a request may be parked or incomplete, and then ends with its connection."""
SIZE_BYTES: Final = 4
BITS: Final = {"i8": 8, "i16": 16, "i32": 32, "i64": 64}
KNOWN: Final[Mapping[str, st.SearchStrategy[Any]]] = {
    "max_wait": st.just(timedelta(0)),
    "group_id": st.uuids().map(str) | st.sampled_from(["", "known", "g\x00", "g" * 300]),
    "topic": st.sampled_from([TOPIC, "unknown", "", "t\x00"]),
    "name": st.sampled_from([TOPIC, "range", "", "t\x00"]) | st.text(max_size=20),
    "member_id": st.just("") | st.text(max_size=20),
    "generation_id_or_member_epoch": st.just(-1) | st.integers(-(2**31), 2**31 - 1),
    "partition_index": st.just(0) | st.integers(-(2**31), 2**31 - 1),
    "committed_offset": st.just(7) | st.integers(-(2**63), 2**63 - 1),
    "session_timeout": st.just(timedelta(seconds=10)) | st.timedeltas(timedelta(0), timedelta(days=1)),
    "protocol_type": st.just("consumer") | st.text(max_size=20),
    "mechanism": st.sampled_from(["PLAIN", "OAUTHBEARER", "SCRAM-SHA-256", ""]),
}
"""Fields whose values lead further than random ones."""
LENGTHS: Final = [b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x80\x00\x00\x00", b"\xff\xff\xff\xff\x0f", b"\xff" * 10]
"""The largest and the smallest lengths, as numbers of four bytes and as varints, and a varint without end."""


# -- frames -----------------------------------------------------------------------------------------


def of_type(kind: Any, name: str = "") -> st.SearchStrategy[Any]:  # noqa: ANN401  # a type of a field of kio's
    """Return values of a field."""
    arguments = typing.get_args(kind)
    if type(None) in arguments:
        return st.none() | of_type(arguments[0], name)
    if typing.get_origin(kind) is tuple:
        return st.lists(of_type(arguments[0], name), max_size=3)
    if is_dataclass(kind):
        return of_schema(kind)
    if name in KNOWN:
        return KNOWN[name]
    bits = next((BITS[each.__name__] for each in kind.__mro__ if each.__name__ in BITS), None)
    if bits is not None:
        return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) | st.integers(-1, 3)
    if issubclass(kind, timedelta):
        return (st.integers(-1, 0) | st.integers(-(2**31), 2**31 - 1)).map(
            lambda length_ms: timedelta(milliseconds=length_ms)
        )
    if issubclass(kind, bool):
        return st.booleans()
    if issubclass(kind, str):
        return st.text(max_size=20)
    return st.uuids() if issubclass(kind, UUID) else st.binary(max_size=50)


def of_schema(schema: Any) -> st.SearchStrategy[dict[str, Any]]:  # noqa: ANN401  # a class of kio's
    """Return the fields of a message."""
    types = typing.get_type_hints(schema)
    return st.fixed_dictionaries({each.name: of_type(types[each.name], each.name) for each in fields(schema)})


@st.composite
def requests(draw: st.DrawFn, key: ApiKey) -> bytes:
    """Draw a valid request of an API, in one of its versions, as a frame."""
    version = draw(st.integers(APIS[key].first, APIS[key].last))
    values = draw(of_schema(load_request_schema(key, version)))
    return frame(key, version, draw(st.text(max_size=10)), draw(st.integers(-(2**31), 2**31 - 1)), **values)


@st.composite
def changed(draw: st.DrawFn, key: ApiKey) -> bytes:
    """Draw a request with changed, missing or added bytes; the size before it may be right or wrong."""
    data = bytearray(draw(requests(key)))
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, len(data)))
        removed = draw(st.integers(0, 8))
        data[place : place + removed] = draw(st.binary(max_size=8) | st.sampled_from(LENGTHS))
    if draw(st.integers(0, 9)):
        data[:SIZE_BYTES] = struct.pack(">i", max(len(data) - SIZE_BYTES, 0))
    return bytes(data)


# -- the node ---------------------------------------------------------------------------------------


class Listener:
    """A node's listener, a connection that stays, and what the node logs."""

    def __init__(self, node: Node, steady: KafkaWire, events: list[EventDict]) -> None:
        self._steady = steady
        self._address: Final = node.settings.kafka_address
        self._events = events
        self._may_close = 0
        """How many connections have not been closed with an event; one that waits is closed later."""

    def check(self, data: bytes) -> None:
        """Send bytes on a connection of their own, and check what they did to the node."""
        with KafkaWire(self._address) as wire:
            wire.socket.settimeout(ANSWER_WAIT_S)
            try:
                wire.send(data)
                wire.is_closed()
            except (TimeoutError, ConnectionError):
                pass  # it waits for another member; or it was closed before all was sent
        self._steady.ask(ApiKey.API_VERSIONS, 0)
        assert read_response(ApiKey.API_VERSIONS, 0, self._steady.receive()).error_code == 0
        events = [*self._events]
        self._events.clear()
        self._may_close += 1 - sum(each["event"] == "kafka_connection_closed" for each in events)
        assert self._may_close >= 0, "a connection was closed with more than one event"
        assert [each for each in events if each["log_level"] == "error" or "exc_info" in each] == []
        assert [each for each in events if each["event"] == "write_refused"] == [], "which unloads a shard"


@pytest.fixture(scope="module")
def listener(databases: Databases) -> Iterator[Listener]:
    url = databases.create()
    with (
        structlog.testing.capture_logs() as events,
        running_kafka_node(url, group_initial_rebalance_delay_ms=0) as node,
    ):
        put_topic(node)
        wait_until_ready(node)
        with KafkaWire(node.settings.kafka_address) as steady:
            offset = {"partition_index": 0, "committed_offset": 1, "committed_metadata": None}
            topics = [{"name": TOPIC, "partitions": [offset]}]
            known = {"group_id": "known", "generation_id_or_member_epoch": -1, "member_id": ""}
            steady.call(ApiKey.OFFSET_COMMIT, 7, **known, group_instance_id=None, topics=topics)
            yield Listener(node, steady, events)
    databases.drop(url)


# -- tests ------------------------------------------------------------------------------------------

fuzzed = settings(
    max_examples=EXAMPLES, derandomize=True, database=None, deadline=None, suppress_health_check=[*HealthCheck]
)


@pytest.mark.parametrize("key", APIS)
@fuzzed
@given(data=st.data())
def test_any_valid_request_is_answered_or_closes_its_connection(
    key: ApiKey, data: st.DataObject, listener: Listener
) -> None:
    listener.check(data.draw(requests(key)))


@pytest.mark.parametrize("key", APIS)
@fuzzed
@given(data=st.data())
def test_changed_request_costs_one_connection(key: ApiKey, data: st.DataObject, listener: Listener) -> None:
    listener.check(data.draw(changed(key)))


@fuzzed
@given(data=st.binary(max_size=200), has_true_size=st.booleans())
def test_random_bytes_cost_one_connection(data: bytes, has_true_size: bool, listener: Listener) -> None:  # drawn
    listener.check(struct.pack(">i", len(data)) + data if has_true_size else data)
