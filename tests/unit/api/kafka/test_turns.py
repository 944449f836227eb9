"""Joins and syncs of many members begin a few at a time, so that other requests come in between."""

import asyncio
from contextlib import ExitStack
from datetime import timedelta

import pytest

from api.kafka.apis import ApiKey
from api.kafka.messages import load_all
from api.shared.limits import ListenerLimits
from api.shared.node_context import NodeContext
from api.shared.turns import LONG_POLLS_AT_ONCE
from tests.support.memory_store import MemoryStore
from tests.support.no_queries import NO_QUERIES
from tests.unit.api.kafka.wire import Fields, Wire
from tests.unit.coordinator_core.runtime.nodes import running

pytestmark = pytest.mark.anyio

TIMEOUT = timedelta(seconds=10)
MEMBER: Fields = {"group_id": "g", "member_id": "unknown"}
JOIN: Fields = {**MEMBER, "session_timeout": TIMEOUT, "rebalance_timeout": TIMEOUT, "protocol_type": "consumer"}


@pytest.mark.parametrize(
    ("key", "version", "fields"),
    [
        (ApiKey.JOIN_GROUP, 5, {**JOIN, "protocols": [{"name": "range", "metadata": b""}]}),
        (ApiKey.SYNC_GROUP, 3, {**MEMBER, "generation_id": 1, "assignments": []}),
    ],
)
async def test_few_are_answered_in_one_turn(key: ApiKey, version: int, fields: Fields) -> None:
    load_all()
    count = 3 * LONG_POLLS_AT_ONCE
    async with running(MemoryStore()) as coordinator:
        node = NodeContext(coordinator, NO_QUERIES, ListenerLimits())
        with ExitStack() as closing:
            wires = [Wire(node) for _ in range(count)]
            for wire in wires:
                closing.callback(wire.close)
                wire.send(key, version, fields)
            in_turns = []
            while (before := sum(wire.is_answered for wire in wires)) < count:
                await asyncio.sleep(0)
                in_turns.append(sum(wire.is_answered for wire in wires) - before)
    assert max(in_turns) <= LONG_POLLS_AT_ONCE
