"""Groups with ids that are longer than those of clients may be here: a cluster's brokers allow 32,767 bytes."""

import json
from collections.abc import AsyncIterator

import pytest

from api.http.app import make_app
from api.http.limits import HttpLimits
from api.kafka.apis import ApiKey
from api.kafka.messages import load_all
from api.shared.node_context import NodeContext
from mirror.record_reader import NAME_MAX_BYTES
from tests.support.no_queries import NO_QUERIES
from tests.unit.api.http.wire import Wire as HttpWire
from tests.unit.api.http.wire import body_of, get, post, status
from tests.unit.api.kafka.wire import Wire
from tests.unit.mirror.world import World

pytestmark = pytest.mark.anyio

LONG = "g" * NAME_MAX_BYTES


@pytest.fixture
async def mirror() -> AsyncIterator[NodeContext]:
    load_all()
    world = World()
    world.see(1, "m", group_id=LONG)
    world.commit(0, 7, group_id=LONG)
    async with world.following() as coordinator:
        yield NodeContext(coordinator, NO_QUERIES, HttpLimits())


async def test_a_long_group_of_a_mirror_is_read_over_http(mirror: NodeContext) -> None:
    app = make_app(mirror, HttpLimits(), "1")
    wire = HttpWire(app, HttpLimits(), keeps_heads=True)
    try:
        described = await wire.ask(get(f"/v1/groups/{LONG}", ""))
        wanted = {"partitions": [{"topic": "orders", "partitions": [0]}]}
        fetched = await wire.ask(post(f"/v1/groups/{LONG}/offsets/query", wanted))
    finally:
        wire.connection.connection_lost(None)
        await app.close()

    assert (status(described), status(fetched)) == (200, 200)
    assert json.loads(body_of(described))["group_id"] == LONG
    assert [each["offset"] for each in json.loads(body_of(fetched))["offsets"]] == [7]


async def test_a_long_group_of_a_mirror_is_read_by_kafka_clients(mirror: NodeContext) -> None:
    wire = Wire(mirror)
    try:
        described = await wire.call(ApiKey.DESCRIBE_GROUPS, 5, {"groups": [LONG]})
        topics = [{"name": "orders", "partition_indexes": (0,)}]
        fetched = await wire.call(ApiKey.OFFSET_FETCH, 5, {"group_id": LONG, "topics": topics})
    finally:
        wire.close()

    assert [(each.error_code, each.group_state) for each in described.groups] == [(0, "Stable")]
    assert fetched.topics[0].partitions[0].committed_offset == 7
