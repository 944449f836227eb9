"""Instances of connections are small: CPython 3.11 shares the keys of at most 30 attributes among instances."""

from typing import Final

import pytest

from api.kafka.connection import KafkaConnection
from tests.unit.api.http.wire import serving

SHARED_KEYS_MAX: Final = 30


@pytest.mark.anyio
async def test_attributes_of_an_http_connection_share_their_keys() -> None:
    async with serving() as node:
        wire = node.connect()
        await wire.ask(b"GET /healthz HTTP/1.1\r\nHost: node\r\n\r\n")
        assert 0 < len(vars(wire.connection)) <= SHARED_KEYS_MAX


def test_kafka_connection_has_slots_alone() -> None:
    assert KafkaConnection.__dictoffset__ == 0
